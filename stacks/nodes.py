"""The nodes of a Slurm site's Auto Scaling group: the wait for them, and their inventory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import available_after
from gpufleet.components.nodes_in_service import NodesInService
from gpufleet.plan.models import NodeGroupPlan
from gpufleet.stacks.node_groups import NodeGroupOutputs, SiteParts

LOGIN_USER = "ubuntu"
"""The login name of AWS's Ubuntu images."""


def await_nodes(
    name: str,
    group: NodeGroupPlan,
    built: NodeGroupOutputs,
    parts: SiteParts,
    *,
    order: pulumi.Resource | None,
    after: Sequence[pulumi.Resource],
) -> Sequence[pulumi.Output[str]]:
    """Make the run fail if the group asks for nodes and they do not run; return the names of its groups.

    The names are known once the nodes run. A Capacity Block's nodes start later, by their schedule, and so do
    those of a fallback. The wait starts once everything in `after` exists. An `order` waits by itself.
    """
    if order is not None:
        return [available_after(name, [order]) for name in built.names]
    nodes = group.capacity.desired
    if nodes == 0 or group.capacity.kind == "capacity-block":
        return built.names
    main, *others = built.names
    wait = NodesInService(
        name,
        group_name=main,
        nodes=nodes,
        region=parts.region,
        wait_s=parts.settings.capacity_wait_s,
        client=parts.settings.aws_client,
        # Not a child of the group: it depends on the group with all of its children.
        opts=pulumi.ResourceOptions(depends_on=list(after)),
    )
    return [available_after(main, [wait]), *others]


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
