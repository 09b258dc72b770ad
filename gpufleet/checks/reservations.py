"""On-Demand Capacity Reservations: one type in one zone, and what an existing one really holds."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, check, listed
from gpufleet.plan.capacity import group_zones

_ID = re.compile(r"cr-([0-9a-f]{8}|[0-9a-f]{17})")


@check("reservation-id")
def reservation_id(fleet: Fleet) -> Iterator[FieldFinding]:
    """The id of a capacity reservation or block is cr- and 8 or 17 hexadecimal digits."""
    for each, held in fleet.reserved():
        if held.id is not None and not _ID.fullmatch(held.id):
            yield FieldFinding(
                (*each.option_path, "id"),
                f"'{held.id}' is not the id of a capacity reservation",
                "write it as AWS does, such as cr-0123456789abcdef0",
            )


@check("reservation-repeated")
def reservation_repeated(fleet: Fleet) -> Iterator[FieldFinding]:
    """Two groups that count on the same nodes cannot both have them."""
    seen: dict[str, str] = {}
    for each, held in fleet.reserved():
        if held.id is None:
            continue
        if held.id in seen:
            yield FieldFinding(
                (*each.option_path, "id"),
                f"{held.id} is the reservation of {seen[held.id]} as well",
                "let one node group use it",
            )
        seen.setdefault(held.id, each.name)


@check("reservation-too-small")
def reservation_too_small(fleet: Fleet) -> Iterator[FieldFinding]:
    """A targeted launch beyond what the reservation holds fails: it does not spill over on demand
    (EC2 User Guide, "Launch instances into an existing Capacity Reservation")."""
    for each, held in fleet.reserved():
        if held.id is None or held.instances is None or held.nodes <= held.instances:
            continue
        yield FieldFinding(
            (*each.option_path, "nodes"),
            f"{held.id} holds {held.instances} instances, and {each.name} wants {held.nodes}",
            f"write 'nodes: {held.instances}', or enlarge the reservation first",
        )


@check("odcr-type")
def odcr_type(fleet: Fleet) -> Iterator[FieldFinding]:
    """A reservation holds one instance type; nodes of another type leave it empty, and it is paid for."""
    for each, odcr in fleet.reservations():
        types = each.group.instance_types
        if len(types) > 1:
            yield FieldFinding(
                (*each.path, "instance_types"),
                f"a capacity reservation holds one instance type, and {each.name} names {len(types)}",
                f"keep one, such as [{types[0]}], and put the others into node groups of their own",
            )
        if odcr.instance_type is not None and odcr.instance_type not in types:
            yield FieldFinding(
                (*each.option_path, "instance_type"),
                f"the reservation holds {odcr.instance_type}, and {each.name} launches {listed(types)}",
                f"write 'instance_types: [{odcr.instance_type}]', or reserve {types[0]}",
            )
        for item in fleet.types(each.group):
            if "on-demand" not in item.usage_classes:
                yield FieldFinding(
                    (*each.path, "instance_types", types.index(item.name)),
                    f"{item.name} is not sold on demand, and so cannot be reserved",
                    "use a Capacity Block",
                )


@check("odcr-zone")
def odcr_zone(fleet: Fleet) -> Iterator[FieldFinding]:
    """A reservation lies in one zone; a group that may use several has to say which."""
    for each, odcr in fleet.reservations():
        zones = group_zones(each.group, each.site)
        if len(zones) == 1:
            continue
        what = f"reservation {odcr.id}" if odcr.id is not None else "a capacity reservation"
        yield FieldFinding(
            (*each.option_path, "zone"),
            f"{what} lies in one zone, and {each.name} may use {listed(zones)}",
            f"write 'zone: {zones[0]}' (or the one that it lies in)",
            value=listed(zones),
        )


CHECKS = (reservation_id, reservation_repeated, reservation_too_small, odcr_type, odcr_zone)
