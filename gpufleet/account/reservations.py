"""The reservations that a fleet file names: On-Demand Capacity Reservations and Capacity Blocks by id, and
resource groups of reservations."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from gpufleet.account.needs import RegionNeeds
from gpufleet.account.reading import Clients, NotCheckedError, error_code, pages
from gpufleet.account.reservation_groups import GroupReader
from gpufleet.account.result import AccountCheck, AccountFinding, SpecPath
from gpufleet.plan.capacity_models import ExistingBlockPlan, ExistingReservationPlan

CHECK = "reservations"

SOON = dt.timedelta(days=7)
"""A reservation that ends within this time is reported."""


class _Named(Struct, frozen=True):
    path: SpecPath
    name: str
    types: tuple[str, ...]
    capacity: ExistingReservationPlan | ExistingBlockPlan

    @property
    def block(self) -> bool:
        return isinstance(self.capacity, ExistingBlockPlan)


def check_reservations(needs: RegionNeeds, clients: Clients, now: dt.datetime) -> AccountCheck:
    """Check state, type, zone, count and end of each reservation that the fleet file names."""
    from botocore.exceptions import ClientError

    findings: list[AccountFinding] = []
    unchecked: list[str] = []
    facts: list[dict[str, Any]] = []
    for named in _named(needs):
        identity = named.capacity.reservation_id
        try:
            client = clients("ec2", needs.region)
            found = [
                *pages(
                    client,
                    "describe_capacity_reservations",
                    "CapacityReservations",
                    CapacityReservationIds=[identity],
                )
            ]
        except NotCheckedError as error:
            unchecked.append(f"{identity}: {error}")
            continue
        except ClientError as error:
            if not error_code(error).startswith("InvalidCapacityReservationId"):
                unchecked.append(f"{identity}: {error_code(error)}")
                continue
            found = []
        facts += [_fact(each) for each in found]
        try:
            findings += _judged(named, found[0] if found else None, needs, now, client)
        except NotCheckedError as error:
            unchecked.append(f"{identity}: {error}")
    groups = GroupReader(needs, clients, now, SOON)
    groups.run()
    findings += groups.findings
    unchecked += groups.unchecked
    facts += [fact for each in groups.members if (fact := _fact(each)) not in facts]
    return AccountCheck(CHECK, needs.region, tuple(findings), tuple(unchecked), tuple(facts))


def _named(needs: RegionNeeds) -> Iterator[_Named]:
    for site in needs.sites:
        for index, group in enumerate(site.plan.node_groups):
            if isinstance(group.capacity, ExistingReservationPlan | ExistingBlockPlan):
                kind = "capacity_block" if isinstance(group.capacity, ExistingBlockPlan) else "odcr"
                path = (*site.path, "node_groups", index, "capacity", "reserved", kind)
                yield _Named(path, f"{group.site}/{group.name}", group.instance_types, group.capacity)


def _judged(
    named: _Named, found: dict[str, Any] | None, needs: RegionNeeds, now: dt.datetime, client: Any
) -> Iterator[AccountFinding]:
    capacity, identity = named.capacity, named.capacity.reservation_id
    title = "Capacity Block" if named.block else "On-Demand Capacity Reservation"

    def finding(field: str, value: Any, message: str, remedy: str, **more: Any) -> AccountFinding:
        path = (*named.path, field) if field else named.path
        return AccountFinding(f"reservation-{field or 'state'}", path, value, message, remedy, **more)

    if found is None:
        yield finding(
            "id",
            identity,
            f"{named.name}: the account has no reservation {identity} in {needs.region}",
            "write the id of one (`aws ec2 describe-capacity-reservations`), or share it with the account",
        )
        return
    state, end = found["State"], found.get("EndDate")
    usable = ("active", "scheduled") if named.block else ("active",)
    if state not in usable or (end is not None and end <= now):
        yield finding(
            "",
            state,
            f"{named.name}: {identity} is {state}" + (f" and ends {end:%Y-%m-%d %H:%M} UTC" if end else ""),
            f"use a {title} that is {' or '.join(usable)}",
        )
        return
    if (found.get("ReservationType") == "capacity-block") != named.block:
        yield finding(
            "id", identity, f"{named.name}: {identity} is no {title}", "write it under the other kind"
        )
    if found["InstanceType"] not in named.types:
        yield finding(
            "instance_type",
            found["InstanceType"],
            f"{named.name}: {identity} holds {found['InstanceType']}, not {', '.join(named.types)}",
            f"write instance_types: [{found['InstanceType']}], or use another reservation",
        )
    if found["AvailabilityZone"] != capacity.reservation_zone:
        yield finding(
            "zone",
            found["AvailabilityZone"],
            f"{named.name}: {identity} is in {found['AvailabilityZone']} "
            f"({found.get('AvailabilityZoneId', 'unknown id')}), not in {capacity.reservation_zone}",
            f"write zone: {found['AvailabilityZone']}",
        )
    yield from _counted(named, found, finding, needs, client)
    if end is not None and named.block and end <= now + SOON:
        yield finding(
            "end",
            f"{end:%Y-%m-%d %H:%M} UTC",
            f"{named.name}: the Capacity Block {identity} ends {end:%Y-%m-%d %H:%M} UTC, and its nodes stop"
            " 45 minutes before",
            "append an entry to `extensions`, and run `up` at least 1 hour before; or use another block",
            severity="warning",
        )
    if end is not None and not named.block and end <= now + SOON:
        yield finding(
            "end",
            f"{end:%Y-%m-%d %H:%M} UTC",
            f"{named.name}: {identity} ends {end:%Y-%m-%d %H:%M} UTC",
            "extend it, or use another one",
            request=f"aws ec2 modify-capacity-reservation --region {needs.region} "
            f"--capacity-reservation-id {identity} --end-date-type unlimited",
            severity="warning",
        )


def _counted(
    named: _Named, found: dict[str, Any], finding: Any, needs: RegionNeeds, client: Any
) -> Iterator[AccountFinding]:
    """Compare the number of nodes with the free instances and those that the fleet runs already."""
    capacity, total = named.capacity, int(found["TotalInstanceCount"])
    if total < capacity.nodes:
        yield finding(
            "nodes",
            total,
            f"{named.name}: {capacity.reservation_id} holds {total} instances, and the group has "
            f"{capacity.nodes} nodes",
            f"write nodes: {total}, or use a larger reservation",
        )
        return
    free = int(found["AvailableInstanceCount"])
    if found["State"] != "active" or free >= capacity.nodes:
        return
    free += _own_instances(capacity.reservation_id, needs, client)
    if free < capacity.nodes:
        yield finding(
            "nodes",
            free,
            f"{named.name}: {free} of {total} instances of {capacity.reservation_id} are free or run for the "
            f"fleet, and the group has {capacity.nodes} nodes",
            "stop what else runs in it, or write fewer nodes",
        )


def _own_instances(reservation_id: str, needs: RegionNeeds, client: Any) -> int:
    states = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    return sum(
        1
        for reservation in pages(client, "describe_instances", "Reservations", Filters=states)
        for instance in reservation["Instances"]
        if instance.get("CapacityReservationId") == reservation_id and needs.owns(instance.get("Tags"))
    )


def _fact(found: dict[str, Any]) -> dict[str, Any]:
    end = found.get("EndDate")
    return {
        "id": found["CapacityReservationId"],
        "type": found["InstanceType"],
        "zone": found["AvailabilityZone"],
        "zone_id": found.get("AvailabilityZoneId"),
        "state": found["State"],
        "total": found["TotalInstanceCount"],
        "available": found["AvailableInstanceCount"],
        "end": f"{end:%Y-%m-%dT%H:%M:%SZ}" if end is not None else None,
    }
