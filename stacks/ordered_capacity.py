"""The orders of all sites: nodes drawn from several node groups, also of other sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi

from gpufleet.components.node_capacity import AllNodes, BlockNodes
from gpufleet.components.ordered_capacity import OrderedCapacity, SourceArgs
from gpufleet.plan.ordered_capacity import OrderPlan, split_group
from gpufleet.stacks.built_site import BuiltSite

Orders = Mapping[tuple[str, str], OrderedCapacity]
"""Orders by their site and name."""


def build_orders(sites: Sequence[BuiltSite]) -> Orders:
    """Draw the nodes of each order, once its sites have everything else."""
    by_name = {built.plan.site: built for built in sites}
    return {
        (built.plan.site, order.name): _build(built, order, by_name)
        for built in sites
        for order in built.plan.ordered_capacity
    }


def drawing_orders(sites: Sequence[BuiltSite], orders: Orders) -> dict[tuple[str, str], OrderedCapacity]:
    """Return the order that draws from a group, by site and group."""
    return {
        split_group(built.plan.site, group): orders[built.plan.site, order.name]
        for built in sites
        for order in built.plan.ordered_capacity
        for group in order.expected
    }


def order_outputs(built: BuiltSite, orders: Orders) -> dict[str, object]:
    """Return what each order of a site asked for and what it obtained."""
    return {
        plan.name: {
            "nodes": plan.nodes,
            "at_least": plan.at_least,
            "obtained": orders[built.plan.site, plan.name].obtained,
            "missing": orders[built.plan.site, plan.name].missing,
            "reasons": orders[built.plan.site, plan.name].reasons,
        }
        for plan in built.plan.ordered_capacity
    }


def _build(built: BuiltSite, order: OrderPlan, sites: Mapping[str, BuiltSite]) -> OrderedCapacity:
    settings = built.parts.settings
    drawn_in = dict.fromkeys(split_group(built.plan.site, name)[0] for name in order.expected)
    after = [resource for site in {built.plan.site: None, **drawn_in} for resource in sites[site].after]
    return OrderedCapacity(
        f"{built.name}-{order.name}",
        places=[[_source(built, order, name, sites) for name in place] for place in order.places],
        nodes=order.nodes,
        at_least=order.at_least,
        region=built.parts.region,
        wait_s=settings.capacity_wait_s,
        client=settings.aws_client,
        # No child of a group: it depends on the groups with all of their children.
        opts=pulumi.ResourceOptions(depends_on=after),
    )


def _source(built: BuiltSite, order: OrderPlan, name: str, sites: Mapping[str, BuiltSite]) -> SourceArgs:
    site, group = split_group(built.plan.site, name)
    there = sites[site]
    plan = next(each for each in there.plan.node_groups if each.name == group)
    made = there.groups[group]
    capacity = made.capacity
    return SourceArgs(
        name=name,
        resource=f"{there.name}-{group}",
        group_name=made.component.auto_scaling_group_names[0],
        most=plan.capacity.max,
        expected=order.expected[name],
        paid=plan.capacity.min if isinstance(capacity, AllNodes) else 0,
        block_id=capacity.reservation_id if isinstance(capacity, BlockNodes) else None,
        region=None if there is built else there.parts.region,
    )
