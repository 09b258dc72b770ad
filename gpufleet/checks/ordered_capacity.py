"""Ordered capacity: groups that can be drawn from, and numbers that fit them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpufleet.checks.rules import FieldFinding, Fleet, SpecPath, check, did_you_mean, listed, nearest
from gpufleet.plan.capacity import group_zones
from gpufleet.plan.ordered_capacity import groups_of_order, plan_orders, split_group, stays_in_zone
from gpufleet.spec.models import CloudSite, NodeGroup, OnDemand, OrderedCapacity, Spot


@check("ordered-groups")
def ordered_groups(fleet: Fleet) -> Iterator[FieldFinding]:
    """An order draws from node groups that exist, each of which belongs to one order."""
    sites = {site.site: site for site in fleet.spec.cloud}
    owner: dict[tuple[str, str], str] = {}
    for path, site, order in _orders(fleet):
        for index, name in enumerate(order.groups):
            where = (*path, "groups", index)
            place, group = split_group(site.site, name)
            if place not in sites:
                yield FieldFinding(
                    where,
                    f"there is no cloud site {place!r}",
                    did_you_mean(nearest(place, sites), f"write one of: {listed(list(sites))}"),
                )
                continue
            known = [each.name for each in sites[place].node_groups]
            if group not in known:
                yield FieldFinding(
                    where,
                    f"site {place!r} has no node group {group!r}",
                    did_you_mean(
                        nearest(group, known), f"write one of: {listed(known) or 'none is declared'}"
                    ),
                )
            if (place, group) in owner:
                yield FieldFinding(
                    where,
                    f"node group {name!r} is in order {owner[place, group]!r} already, which sets its size",
                    "remove it here, or there",
                )
            owner.setdefault((place, group), order.name)
    for path, site in fleet.cloud():
        names: set[str] = set()
        for index, order in enumerate(site.ordered_capacity):
            if order.name in names:
                yield FieldFinding(
                    (*path, "ordered_capacity", index, "name"),
                    f"order {order.name!r} is declared twice",
                    "choose another name",
                )
            names.add(order.name)


@check("ordered-sites")
def ordered_sites(fleet: Fleet) -> Iterator[FieldFinding]:
    """A job that gets nodes of another site finds the same scheduler there, and nodes that have a size."""
    for path, site, order in _orders(fleet):
        for name, where, _ in groups_of_order(fleet.spec, site, order):
            if where.scheduler != site.scheduler:
                yield FieldFinding(
                    (*path, "groups", order.groups.index(name)),
                    f"site {where.site!r} has the scheduler {where.scheduler}, and site {site.site!r} of"
                    f" order {order.name!r} has {site.scheduler}",
                    "name groups of sites with the same scheduler",
                )
            elif where.slurm is not None and where is not site:
                yield FieldFinding(
                    (*path, "groups", order.groups.index(name)),
                    f"Slurm launches the nodes of site {where.site!r}, and orders need groups with a size",
                    "remove it",
                )


@check("ordered-sizes")
def ordered_sizes(fleet: Fleet) -> Iterator[FieldFinding]:
    """An order sets the sizes of its groups, which have none of their own."""
    for _, site, order in _orders(fleet):
        for where, _, group in _groups(fleet, site, order):
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
        for index, (order, planned) in enumerate(
            zip(site.ordered_capacity, plan_orders(fleet.spec, site), strict=True)
        ):
            groups = {name: group for name, _, group in groups_of_order(fleet.spec, site, order)}
            if len(groups) < len(set(order.groups)):
                continue
            held = max(sum(groups[name].capacity.most_nodes for name in place) for place in planned.places)
            if held < planned.nodes:
                one = "zone" if stays_in_zone(list(groups.values())) else "site"
                at_a_time = f" in one {one}" if len(planned.places) > 1 else ""
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
        if not stays_in_zone([group for _, _, group in named]):
            continue
        for where, place, group in named:
            zones = group_zones(group, place)
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
        for where, _, group in members[1:]:
            for field in ("gpu_sharing", "mig_profile"):
                if getattr(group, field) != getattr(members[0][2], field):
                    yield FieldFinding(
                        (*where, field),
                        f"node groups {members[0][2].name!r} and {group.name!r} of order {order.name!r} do"
                        f" not have the same `{field}`",
                        f"write the same `{field}` in both, or in none",
                        value=group.name,
                    )


def _orders(fleet: Fleet) -> Iterator[tuple[SpecPath, CloudSite, OrderedCapacity]]:
    for path, site in fleet.cloud():
        for index, order in enumerate(site.ordered_capacity):
            yield (*path, "ordered_capacity", index), site, order


def _groups(
    fleet: Fleet, site: CloudSite, order: OrderedCapacity
) -> Sequence[tuple[SpecPath, CloudSite, NodeGroup]]:
    """Return (path, site, group) of the groups of an order that exist."""
    wanted = {split_group(site.site, name) for name in order.groups}
    return [
        (each.path, each.site, each.group)
        for each in fleet.groups()
        if (each.site.site, each.group.name) in wanted
    ]


CHECKS = (ordered_groups, ordered_sites, ordered_sizes, ordered_nodes, ordered_zones, ordered_sharing)
