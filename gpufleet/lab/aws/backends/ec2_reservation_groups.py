"""Launches into resource groups of capacity reservations, for which moto has no members.

Sources: EC2 User Guide, "Capacity Reservation groups" (a launch matches any reservation of the group with its
type, platform, zone and tenancy, else it runs on demand); EC2 API Reference, CapacityReservationSpecification
(only `capacity-reservations-only` goes with a target, and such a launch fails without capacity).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from moto.core.utils import utcnow

from gpufleet.lab.aws.backends import ec2_capacity_reservations as reservations
from gpufleet.lab.aws.backends.operation import Params

if TYPE_CHECKING:
    from gpufleet.lab.aws.backends.ec2_capacity_reservations import Reservation

EXCEEDED = "ReservationCapacityExceeded"
EXCEEDED_MESSAGE = (
    "The requested reservation does not have sufficient compatible and available capacity for this request."
)
POOL = "AWS::EC2::CapacityReservationPool"
"""The configuration that lets launches target a resource group."""

ONLY = "capacity-reservations-only"


def group_target_of(data: Params) -> str | None:
    """Return the resource group that a launch targets."""
    specification = data.get("CapacityReservationSpecification") or {}
    found: str | None = (specification.get("CapacityReservationTarget") or {}).get(
        "CapacityReservationResourceGroupArn"
    )
    return found


def launches_only_reserved(data: Params) -> bool:
    """Return whether a launch fails where its group has no room."""
    return (data.get("CapacityReservationSpecification") or {}).get("CapacityReservationPreference") == ONLY


def find_group(account: str, region: str, arn: str) -> Any | None:
    """Return moto's resource group of an account, None if there is none that launches can target."""
    from moto.resourcegroups.models import resourcegroups_backends

    groups = resourcegroups_backends[account][region].groups
    found = groups.by_arn.get(arn)
    if found is None or not any(each.get("Type") == POOL for each in found.configuration or ()):
        return None
    return found


def members_of(group: Any) -> list[str]:
    """Return the ARNs in a resource group, in the order in which they were added."""
    kept: list[str] = vars(group).setdefault("gpufleet_members", [])
    return kept


def reservations_of_group(account: str, region: str, arn: str) -> Iterator[Reservation]:
    """Yield the reservations of a group, also those that other accounts own."""
    group = find_group(account, region, arn)
    for member in members_of(group) if group is not None else ():
        _, _, _, home, owner, name = member.split(":", 5)
        held = reservations.reservation_backends[owner][home].reservations
        if (found := held.get(name.rpartition("/")[2])) is not None:
            yield found


def fitting(backend: Any, data: Params, zone: str | None) -> list[tuple[Reservation, int]]:
    """Return the reservations that instances of a launch can use, and their free instances.

    `backend` is moto's EC2 backend; without a zone, those of all zones.
    """
    arn = group_target_of(data)
    if arn is None:
        return []
    now = utcnow()
    return [
        (held, free)
        for held in reservations_of_group(backend.account_id, backend.region_name, arn)
        if held.kind == "default"
        and held.instance_type == data.get("InstanceType")
        and zone in (None, held.zone)
        and held.state(now) == "active"
        and (free := held.count - reservations.used_in(backend, held)) > 0
    ]


def group_room(backend: Any, data: Params, zone: str | None) -> int | None:
    """Return how many more instances of a launch fit into its group; None where the group is no limit."""
    if group_target_of(data) is None or not launches_only_reserved(data):
        return None
    return sum(free for _, free in fitting(backend, data, zone))
