"""The orders of a site: nodes drawn from several of its node groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi

from gpufleet.components.node_capacity import AllNodes, BlockNodes
from gpufleet.components.ordered_capacity import OrderedCapacity, SourceArgs
from gpufleet.plan.models import CloudSitePlan, NodeGroupPlan
from gpufleet.plan.ordered_capacity import OrderPlan
from gpufleet.stacks.node_groups import NodeGroupOutputs, SiteParts


def build_orders(
    name: str,
    site: CloudSitePlan,
    groups: Mapping[str, NodeGroupOutputs],
    parts: SiteParts,
    *,
    after: Sequence[pulumi.Resource],
) -> dict[str, OrderedCapacity]:
    """Draw the nodes of each order once everything in `after` exists; the orders by their names."""
    plans = {group.name: group for group in site.node_groups}

    def source(order: OrderPlan, group: str) -> SourceArgs:
        return _source(f"{name}-{group}", order, plans[group], groups[group])

    return {
        order.name: OrderedCapacity(
            f"{name}-{order.name}",
            places=[[source(order, group) for group in place] for place in order.places],
            nodes=order.nodes,
            at_least=order.at_least,
            region=parts.region,
            wait_s=parts.settings.capacity_wait_s,
            client=parts.settings.aws_client,
            # No child of a group: it depends on the groups with all of their children.
            opts=pulumi.ResourceOptions(depends_on=list(after)),
        )
        for order in site.ordered_capacity
    }


def order_outputs(site: CloudSitePlan, orders: Mapping[str, OrderedCapacity]) -> dict[str, object]:
    """Return what each order asked for and what it obtained."""
    return {
        plan.name: {
            "nodes": plan.nodes,
            "at_least": plan.at_least,
            "obtained": orders[plan.name].obtained,
            "missing": orders[plan.name].missing,
            "reasons": orders[plan.name].reasons,
        }
        for plan in site.ordered_capacity
    }


def _source(resource: str, order: OrderPlan, group: NodeGroupPlan, built: NodeGroupOutputs) -> SourceArgs:
    capacity = built.capacity
    return SourceArgs(
        name=group.name,
        resource=resource,
        group_name=built.component.auto_scaling_group_names[0],
        most=group.capacity.max,
        expected=order.expected[group.name],
        paid=group.capacity.min if isinstance(capacity, AllNodes) else 0,
        block_id=capacity.reservation_id if isinstance(capacity, BlockNodes) else None,
    )
