"""Ordered capacity: groups that can be drawn from, and numbers that fit them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check, did_you_mean, listed, nearest
from gpufleet.plan.capacity import group_zones
from gpufleet.plan.ordered_capacity import plan_orders, stays_in_zone
from gpufleet.spec.models import CloudSite, NodeGroup, OnDemand, OrderedCapacity, Spot


@check("ordered-groups")
def ordered_groups(fleet: Fleet) -> Iterator[FieldFinding]:
    """An order draws from node groups of its site, each of which belongs to one order."""
    for path, site, order in _orders(fleet):
        known = [group.name for group in site.node_groups]
        for index, name in enumerate(order.groups):
            if name not in known:
                yield FieldFinding(
                    (*path, "groups", index),
                    f"site {site.site!r} has no node group {name!r}",
                    did_you_mean(
                        nearest(name, known), f"write one of: {listed(known) or 'none is declared'}"
                    ),
                )
    for path, site in fleet.cloud():
        owner: dict[str, str] = {}
        names: set[str] = set()
        for place, order in enumerate(site.ordered_capacity):
            where = (*path, "ordered_capacity", place)
            if order.name in names:
                yield FieldFinding(
                    (*where, "name"), f"order {order.name!r} is declared twice", "choose another name"
                )
            names.add(order.name)
            for index, name in enumerate(order.groups):
                if name in owner:
                    yield FieldFinding(
                        (*where, "groups", index),
                        f"node group {name!r} is in order {owner[name]!r} already, which sets its size",
                        "remove it here, or there",
                    )
                owner.setdefault(name, order.name)


@check("ordered-sizes")
def ordered_sizes(fleet: Fleet) -> Iterator[FieldFinding]:
    """An order sets the sizes of its groups, which have none of their own."""
    for _, site, order in _orders(fleet):
        for where, group in _groups(fleet, site, order):
            option = group.capacity.option
            if not isinstance(option, OnDemand | Spot):
                continue
            path = (*where, "capacity", *option.path)
            for field in ("min", "desired"):
                if getattr(option, field):
                    yield FieldFinding(
                        (*path, field),
                        f"order {order.name!r} sets the size of node group {group.name!r}, from 0 nodes on",
                        f"remove `{field}`",
                        value=getattr(option, field),
                    )
            if isinstance(option, Spot) and option.falls_back:
                yield FieldFinding(
                    (*path, "on_shortage"),
                    f"order {order.name!r} has what is tried when node group {group.name!r} has no capacity",
                    "remove 'on-demand' here, and add a node group with `on_demand` to the order",
                )


@check("ordered-nodes")
def ordered_nodes(fleet: Fleet) -> Iterator[FieldFinding]:
    """The groups that an order draws from at a time hold the nodes that it wants."""
    for path, _, order in _orders(fleet):
        if order.nodes == 0:
            yield FieldFinding(
                (*path, "nodes"),
                f"order {order.name!r} is for 0 nodes",
                "write 1 or more, or remove the order",
            )
        elif order.enough > order.nodes:
            yield FieldFinding(
                (*path, "at_least"),
                f"at_least {order.enough} is more than the {order.nodes} nodes of order {order.name!r}",
                f"write 'at_least: {order.nodes}' or less",
            )
    for path, site in fleet.cloud():
        groups = {group.name: group for group in site.node_groups}
        if any(name not in groups for order in site.ordered_capacity for name in order.groups):
            continue
        for index, planned in enumerate(plan_orders(site)):
            held = max(sum(groups[name].capacity.most_nodes for name in place) for place in planned.places)
            if held < planned.nodes:
                at_a_time = " in one zone" if len(planned.places) > 1 else ""
                yield FieldFinding(
                    (*path, "ordered_capacity", index, "nodes"),
                    f"the groups of order {planned.name!r} have at most {held} nodes{at_a_time}, not"
                    f" {planned.nodes}",
                    f"write 'nodes: {held}', or raise `max` of a group",
                )


@check("ordered-zones")
def ordered_zones(fleet: Fleet) -> Iterator[FieldFinding]:
    """EFA traffic stays in a zone, and a placement group is in one: the order must know the zone of each
    group."""
    for _, site, order in _orders(fleet):
        named = _groups(fleet, site, order)
        if not stays_in_zone([group for _, group in named]):
            continue
        for where, group in named:
            zones = group_zones(group, site)
            if len(zones) > 1:
                yield FieldFinding(
                    (*where, "zones") if group.zones else (*where, "name"),
                    f"the nodes of order {order.name!r} must be in one zone (EFA, or a placement group), and"
                    f" node group {group.name!r} has {len(zones)} ({listed(zones)})",
                    f"write one zone, such as 'zones: [{zones[0]}]', and add a group for each other zone",
                )


@check("ordered-sharing")
def ordered_sharing(fleet: Fleet) -> Iterator[FieldFinding]:
    """A job gets nodes of any group of an order, so pods must request the same of all."""
    for _, site, order in _orders(fleet):
        members = _groups(fleet, site, order)
        for where, group in members[1:]:
            for field in ("gpu_sharing", "mig_profile"):
                if getattr(group, field) != getattr(members[0][1], field):
                    yield FieldFinding(
                        (*where, field),
                        f"node groups {members[0][1].name!r} and {group.name!r} of order {order.name!r} do"
                        f" not have the same `{field}`",
                        f"write the same `{field}` in both, or in none",
                        value=group.name,
                    )


def _orders(fleet: Fleet) -> Iterator[tuple[SpecPath, CloudSite, OrderedCapacity]]:
    for path, site in fleet.cloud():
        for index, order in enumerate(site.ordered_capacity):
            yield (*path, "ordered_capacity", index), site, order


def _groups(fleet: Fleet, site: CloudSite, order: OrderedCapacity) -> Sequence[tuple[SpecPath, NodeGroup]]:
    """Return the groups of an order that exist, with their paths."""
    return [
        (each.path, each.group)
        for each in fleet.groups()
        if each.site is site and each.group.name in order.groups
    ]


CHECKS = (ordered_groups, ordered_sizes, ordered_nodes, ordered_zones, ordered_sharing)
