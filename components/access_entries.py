"""Access entries of an EKS cluster: who administers it, and who reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import Component

AccessKind = Literal["admin", "viewer"]

POLICIES: Mapping[AccessKind, str] = {
    "admin": "AmazonEKSClusterAdminPolicy",
    "viewer": "AmazonEKSAdminViewPolicy",
}
"""EKS's access policy of each kind, for the whole cluster.

A viewer reads every kind of object and writes none. AmazonEKSViewPolicy has no rule for priority classes and
for secrets, in which Helm keeps its releases, so that a refresh of a cluster's contents would fail with it
(EKS User Guide, "Review access policy permissions"). No viewer needs to write for a preview: where the API
refuses a dry run, Pulumi's provider compares on its own side (pulumi-kubernetes 4.34, provider.go, Create and
Update).
"""


def access_entries(
    cluster: Component,
    name: str,
    kind: AccessKind,
    principals: Sequence[pulumi.Input[str]],
    cluster_name: pulumi.Output[str],
    partition: pulumi.Output[str],
) -> None:
    """Give each IAM principal an access entry with the policy of the kind; `cluster` is their parent."""
    for number, principal in enumerate(principals):
        # Named after the principal: with numbers, removing the first would rename all others, and EKS
        # rejects a second entry for a principal.
        label = f"{name}-{kind}-{_slug(principal) if isinstance(principal, str) else number}"
        entry = aws.eks.AccessEntry(
            label,
            cluster_name=cluster_name,
            principal_arn=principal,
            type="STANDARD",
            tags=cluster.tags(label),
            opts=cluster.child(),
        )
        aws.eks.AccessPolicyAssociation(
            label,
            cluster_name=cluster_name,
            principal_arn=entry.principal_arn,
            policy_arn=pulumi.Output.format(
                "arn:{0}:eks::aws:cluster-access-policy/{1}", partition, POLICIES[kind]
            ),
            access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
            opts=cluster.child(),
        )


def _slug(principal_arn: str) -> str:
    return principal_arn.partition("::")[2].replace(":", "-").replace("/", "-")
