"""Shares of AWS Resource Access Manager: what other accounts may use of a resource."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import Component


def share(
    component: Component,
    name: str,
    resource_arn: pulumi.Input[str],
    principals: Sequence[str],
    *,
    outside: bool,
) -> pulumi.Output[str]:
    """Share a resource with principals, and return the ARN of the share.

    Unless `outside`, AWS rejects accounts that are not in the organization of this account, and there must be
    one in which sharing is enabled (AWS RAM User Guide, "Enable resource sharing within AWS Organizations").
    """
    made = aws.ram.ResourceShare(
        name,
        allow_external_principals=outside,
        tags=component.tags(name),
        opts=component.child(),
    )
    aws.ram.ResourceAssociation(
        name, resource_arn=resource_arn, resource_share_arn=made.arn, opts=component.child()
    )
    for principal in principals:
        aws.ram.PrincipalAssociation(
            f"{name}-{principal.rpartition('/')[2]}",
            principal=principal,
            resource_share_arn=made.arn,
            opts=component.child(),
        )
    arn: pulumi.Output[str] = made.arn
    return arn
