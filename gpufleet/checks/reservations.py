"""On-Demand Capacity Reservations: one type, one zone, and the size of existing ones."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, check, listed
from gpufleet.plan.capacity import group_zones
from gpufleet.spec.models import OnDemandReservation

_ID = re.compile(r"cr-([0-9a-f]{8}|[0-9a-f]{17})")


@check("reservation-id")
def reservation_id(fleet: Fleet) -> Iterator[FieldFinding]:
    """The ID of a capacity reservation or block is cr- and 8 or 17 hexadecimal digits."""
    for each, held in fleet.reserved():
        if held.id is not None and not _ID.fullmatch(held.id):
            yield FieldFinding(
                (*each.option_path, "id"),
                f"'{held.id}' is not the ID of a capacity reservation",
                "write an ID such as cr-0123456789abcdef0",
            )


@check("reservation-group")
def reservation_group(fleet: Fleet) -> Iterator[FieldFinding]:
    """A resource group is in one region, as are its reservations. A node group launches into one reservation
    or into those of one group (EC2 API Reference, CapacityReservationTarget)."""
    for each, odcr in fleet.reservations():
        if odcr.group is None:
            continue
        where, region = (*each.option_path, "group"), odcr.group.split(":")[3]
        if odcr.id is not None:
            yield FieldFinding(
                where,
                f"{each.name} has reservation {odcr.id} and group {odcr.group}: EC2 takes one of them",
                "remove `id`, or remove `group`",
            )
        if region != each.site.region:
            yield FieldFinding(
                where,
                f"the resource group is in {region}, but site {each.site.site!r} is in {each.site.region}",
                f"use a group of {each.site.region}",
            )


@check("reservation-repeated")
def reservation_repeated(fleet: Fleet) -> Iterator[FieldFinding]:
    """Two node groups cannot use the same reserved nodes."""
    seen: dict[str, str] = {}
    for each, held in fleet.reserved():
        if held.id is None:
            continue
        if held.id in seen:
            yield FieldFinding(
                (*each.option_path, "id"),
                f"{held.id} is also the reservation of {seen[held.id]}",
                "use it in one node group",
            )
        seen.setdefault(held.id, each.name)


@check("reservation-too-small")
def reservation_too_small(fleet: Fleet) -> Iterator[FieldFinding]:
    """A targeted launch beyond the reservation's size fails and does not fall back to on-demand
    (EC2 User Guide, "Launch instances into an existing Capacity Reservation"). Node groups with one type
    share what a resource group holds of it."""
    shared: dict[tuple[str, str], int] = {}
    for each, held in fleet.reserved():
        group = held.group if isinstance(held, OnDemandReservation) else None
        name = held.id or group
        if name is None or held.instances is None:
            continue
        others = 0
        if group is not None:
            key = (group, each.group.instance_types[0])
            others = shared.get(key, 0)
            shared[key] = others + held.nodes
        if others + held.nodes <= held.instances:
            continue
        more = f", beside {others} of other node groups" if others else ""
        left = max(held.instances - others, 0)
        yield FieldFinding(
            (*each.option_path, "nodes"),
            f"{name} holds {held.instances} instances, but {each.name} needs {held.nodes}{more}",
            f"write 'nodes: {left}', or enlarge the reservation first"
            if left
            else "remove the node group, or enlarge a reservation of the group first",
        )


@check("odcr-type")
def odcr_type(fleet: Fleet) -> Iterator[FieldFinding]:
    """A reservation holds one instance type. Nodes of another type leave it unused but paid for."""
    for each, odcr in fleet.reservations():
        types = each.group.instance_types
        if len(types) > 1:
            yield FieldFinding(
                (*each.path, "instance_types"),
                f"a capacity reservation holds one instance type, but {each.name} lists {len(types)}",
                f"keep one, such as [{types[0]}], and move the others to separate node groups",
            )
        if odcr.instance_type is not None and odcr.instance_type not in types:
            yield FieldFinding(
                (*each.option_path, "instance_type"),
                f"the reservation holds {odcr.instance_type}, but {each.name} launches {listed(types)}",
                f"write 'instance_types: [{odcr.instance_type}]', or reserve {types[0]}",
            )
        for item in fleet.types(each.group):
            if "on-demand" not in item.usage_classes:
                yield FieldFinding(
                    (*each.path, "instance_types", types.index(item.name)),
                    f"{item.name} is not sold on demand and cannot be reserved",
                    "use a Capacity Block",
                )


@check("odcr-zone")
def odcr_zone(fleet: Fleet) -> Iterator[FieldFinding]:
    """A reservation is in one zone, so a node group with several zones must state which. Those of a resource
    group may be in several."""
    for each, odcr in fleet.reservations():
        zones = group_zones(each.group, each.site)
        if len(zones) == 1 or odcr.group is not None:
            continue
        what = f"reservation {odcr.id}" if odcr.id is not None else "a capacity reservation"
        yield FieldFinding(
            (*each.option_path, "zone"),
            f"{what} is in one zone, but {each.name} can use {listed(zones)}",
            f"write 'zone: {zones[0]}' (or the zone of the reservation)",
            value=listed(zones),
        )


@check("reservation-share")
def reservation_share(fleet: Fleet) -> Iterator[FieldFinding]:
    """Only the owner of a reservation can share it (EC2 User Guide, "Shared Capacity Reservations"), so those
    with `id` or `group` are shared where they are made."""
    for each, odcr in fleet.reservations():
        path = each.option_path
        for field in ("share_with", "shared_nodes", "share_outside_organization"):
            if not getattr(odcr, field):
                continue
            if odcr.existing is not None:
                yield FieldFinding(
                    (*path, field),
                    f"reservation {odcr.existing} exists already, and `{field}` is for one that is made here",
                    f"remove `{field}`, and share the reservation in the account that owns it",
                )
            elif not odcr.share_with:
                yield FieldFinding(
                    (*path, field),
                    f"`{field}` is for a reservation that is shared, and `share_with` is empty",
                    f"remove `{field}`, or list accounts in `share_with`",
                )
        seen: set[str] = set()
        for index, principal in enumerate(odcr.share_with):
            if principal in seen:
                yield FieldFinding(
                    (*path, "share_with", index), f"{principal} is listed twice", "list it once"
                )
            seen.add(principal)
        if odcr.share_outside_organization and odcr.share_with and not any(map(str.isdigit, odcr.share_with)):
            yield FieldFinding(
                (*path, "share_outside_organization"),
                "`share_with` lists no account, and AWS shares with organizations only from inside",
                "remove `share_outside_organization`, or list account ids",
            )


CHECKS = (
    reservation_id,
    reservation_group,
    reservation_repeated,
    reservation_too_small,
    odcr_type,
    odcr_zone,
    reservation_share,
)
