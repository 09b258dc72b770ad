"""The nodes of a Slurm site's Auto Scaling group: the wait for them, and their inventory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import available_after
from gpufleet.components.nodes_in_service import NodesInService
from gpufleet.plan.models import NodeGroupPlan
from gpufleet.stacks.built_site import BuiltSite

LOGIN_USER = "ubuntu"
"""The login name of AWS's Ubuntu images."""


def site_nodes(
    built: BuiltSite, orders: Mapping[tuple[str, str], pulumi.Resource]
) -> Iterator[pulumi.Output[list[dict[str, Any]]]]:
    """Yield the running nodes of each group of a Slurm site whose size is set here; `orders` draw from
    groups, by site and group."""
    site = built.plan
    if site.scheduler != "slurm" or site.slurm is not None:
        return
    for group in site.node_groups:
        names = _await_nodes(built, group, orders.get((site.site, group.name)))
        yield running_nodes(site.site, group.name, names, built.provider)


def _await_nodes(
    site: BuiltSite, group: NodeGroupPlan, order: pulumi.Resource | None
) -> Sequence[pulumi.Output[str]]:
    """Make the run fail if the group asks for nodes and they do not run; return the names of its groups.

    The names are known once the nodes run. A Capacity Block's nodes start later, by their schedule, and so do
    those of a fallback. The wait starts once everything else of the site exists. An `order` waits by itself.
    """
    built, parts = site.groups[group.name], site.parts
    if order is not None:
        return [available_after(name, [order]) for name in built.names]
    nodes = group.capacity.desired
    if nodes == 0 or group.capacity.kind == "capacity-block":
        return built.names
    main, *others = built.names
    wait = NodesInService(
        f"{site.name}-{group.name}",
        group_name=main,
        nodes=nodes,
        region=parts.region,
        wait_s=parts.settings.capacity_wait_s,
        client=parts.settings.aws_client,
        # Not a child of the group: it depends on the group with all of its children.
        opts=pulumi.ResourceOptions(depends_on=list(site.after)),
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
