"""Nodes that are drawn from node groups in an order: from which groups, and how many of each if all have
capacity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from gpufleet.plan.capacity import group_zones
from gpufleet.spec.models import CloudSite, FleetSpec, NodeGroup, OrderedCapacity


class OrderPlan(Struct, frozen=True):
    """`nodes` nodes from the groups of one of `places`, in order; none rather than fewer than `at_least`.

    `expected` has the nodes by group if every group has capacity. Groups of another site have the name
    `site/group`.
    """

    name: str
    nodes: int
    at_least: int
    places: tuple[tuple[str, ...], ...]
    expected: Mapping[str, int]


def split_group(site: str, name: str) -> tuple[str, str]:
    """Return the site and the node group that an order of `site` names."""
    other, _, group = name.rpartition("/")
    return other or site, group


def plan_orders(spec: FleetSpec, site: CloudSite) -> tuple[OrderPlan, ...]:
    """The orders of a site."""
    return tuple(_plan_order(spec, site, order) for order in site.ordered_capacity)


def drawn_groups(spec: FleetSpec) -> set[tuple[str, str]]:
    """The groups that an order names, by site and group, whether they exist or not."""
    return {
        split_group(site.site, name)
        for site in spec.cloud
        for order in site.ordered_capacity
        for name in order.groups
    }


def drawn_nodes(spec: FleetSpec) -> dict[tuple[str, str], int]:
    """The nodes expected of each group that an order draws from, by site and group."""
    return {
        split_group(site.site, name): nodes
        for site in spec.cloud
        for order in plan_orders(spec, site)
        for name, nodes in order.expected.items()
    }


def groups_of_order(
    spec: FleetSpec, site: CloudSite, order: OrderedCapacity
) -> list[tuple[str, CloudSite, NodeGroup]]:
    """Return (name in the order, site, group) of the groups that exist, in the order's order."""
    groups = {(each.site, group.name): (each, group) for each in spec.cloud for group in each.node_groups}
    found = ((name, groups.get(split_group(site.site, name))) for name in order.groups)
    return [(name, *there) for name, there in found if there is not None]


def stays_in_zone(groups: Sequence[NodeGroup]) -> bool:
    """Whether the nodes of groups have to be in one zone: EFA traffic and placement groups do not cross
    zones."""
    return any(group.network == "efa" or group.placement == "cluster" for group in groups)


def _plan_order(spec: FleetSpec, site: CloudSite, order: OrderedCapacity) -> OrderPlan:
    groups = groups_of_order(spec, site, order)
    close = stays_in_zone([group for _, _, group in groups])
    places: dict[tuple[str, tuple[str, ...]], list[tuple[str, NodeGroup]]] = {}
    for name, where, group in groups:
        zones = group_zones(group, where) if close else ()
        places.setdefault((where.site, zones), []).append((name, group))
    expected, missing = {name: 0 for name, _, _ in groups}, order.nodes
    for name, group in next(iter(places.values()), []):
        expected[name] = min(missing, group.capacity.most_nodes)
        missing -= expected[name]
    return OrderPlan(
        order.name,
        order.nodes,
        order.enough,
        tuple(tuple(name for name, _ in place) for place in places.values()),
        expected,
    )
