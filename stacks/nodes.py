"""The running nodes of a Slurm site's Auto Scaling group, for the inventory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

LOGIN_USER = "ubuntu"
"""The login name of AWS's Ubuntu images."""


def running_nodes(
    site: str, node_group: str, group_names: Sequence[pulumi.Output[str]], provider: aws.Provider
) -> pulumi.Output[list[dict[str, Any]]]:
    """Return `{site, node_group, name, address, user}` of each running node, sorted by private address.

    A node's name is the host name that EC2 gives it (`ip-10-11-0-5`). Nodes that start or stop later
    change with the next run.
    """
    found = [
        aws.ec2.get_instances_output(
            instance_tags={"aws:autoscaling:groupName": name},
            opts=pulumi.InvokeOutputOptions(provider=provider),
        ).private_ips
        for name in group_names
    ]
    return pulumi.Output.all(*found).apply(
        lambda groups: [
            {
                "site": site,
                "node_group": node_group,
                "name": f"ip-{address.replace('.', '-')}",
                "address": address,
                "user": LOGIN_USER,
            }
            for addresses in groups
            for address in sorted(addresses)
        ]
    )
