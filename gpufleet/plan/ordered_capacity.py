"""Nodes that are drawn from node groups in an order: from which groups, and how many of each if all have
capacity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpufleet.plan.capacity import group_zones
from gpufleet.spec.models import CloudSite, NodeGroup, OrderedCapacity


@dataclass(frozen=True, slots=True)
class OrderPlan:
    """`nodes` nodes from the groups of one of `places`, in order; none rather than fewer than `at_least`.

    `expected` has the nodes by group if every group has capacity.
    """

    name: str
    nodes: int
    at_least: int
    places: tuple[tuple[str, ...], ...]
    expected: Mapping[str, int]


def plan_orders(site: CloudSite) -> tuple[OrderPlan, ...]:
    """The orders of a site."""
    by_name = {group.name: group for group in site.node_groups}
    return tuple(
        _plan_order(order, site, [by_name[name] for name in order.groups]) for order in site.ordered_capacity
    )


def drawn_nodes(orders: Sequence[OrderPlan]) -> dict[str, int]:
    """The nodes expected of each group that an order draws from."""
    return {name: nodes for order in orders for name, nodes in order.expected.items()}


def stays_in_zone(groups: Sequence[NodeGroup]) -> bool:
    """Whether the nodes of groups have to be in one zone: EFA traffic and placement groups do not cross
    zones."""
    return any(group.network == "efa" or group.placement == "cluster" for group in groups)


def _plan_order(order: OrderedCapacity, site: CloudSite, groups: Sequence[NodeGroup]) -> OrderPlan:
    places: dict[tuple[str, ...], list[NodeGroup]] = {}
    for group in groups:
        where = group_zones(group, site) if stays_in_zone(groups) else ()
        places.setdefault(where, []).append(group)
    expected, missing = {group.name: 0 for group in groups}, order.nodes
    for group in next(iter(places.values())):
        expected[group.name] = min(missing, group.capacity.most_nodes)
        missing -= expected[group.name]
    return OrderPlan(
        order.name,
        order.nodes,
        order.enough,
        tuple(tuple(group.name for group in place) for place in places.values()),
        expected,
    )
