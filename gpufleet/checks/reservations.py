"""On-Demand Capacity Reservations: one type, one zone, and the size of existing ones."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, check, listed
from gpufleet.plan.capacity import group_zones

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
    (EC2 User Guide, "Launch instances into an existing Capacity Reservation")."""
    for each, held in fleet.reserved():
        if held.id is None or held.instances is None or held.nodes <= held.instances:
            continue
        yield FieldFinding(
            (*each.option_path, "nodes"),
            f"{held.id} holds {held.instances} instances, but {each.name} needs {held.nodes}",
            f"write 'nodes: {held.instances}', or enlarge the reservation first",
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
    """A reservation is in one zone, so a node group with several zones must state which."""
    for each, odcr in fleet.reservations():
        zones = group_zones(each.group, each.site)
        if len(zones) == 1:
            continue
        what = f"reservation {odcr.id}" if odcr.id is not None else "a capacity reservation"
        yield FieldFinding(
            (*each.option_path, "zone"),
            f"{what} is in one zone, but {each.name} can use {listed(zones)}",
            f"write 'zone: {zones[0]}' (or the zone of the reservation)",
            value=listed(zones),
        )


CHECKS = (reservation_id, reservation_repeated, reservation_too_small, odcr_type, odcr_zone)
