"""Launches of types with several network cards that EC2 rejects and moto allows.

Sources: EC2 user guide, "Elastic Fabric Adapter" (interface types, number of EFA interfaces) and
"Capacity Blocks for ML" (a launch targets the reservation; no cluster placement group).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moto.core.utils import utcnow

from gpufleet.lab.aws.backends import ec2_placement_groups as placement_groups
from gpufleet.lab.aws.backends.ec2_capacity_reservations import find as find_reservation
from gpufleet.lab.aws.backends.ec2_reservation_groups import ONLY, find_group, group_target_of
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params

if TYPE_CHECKING:
    from collections.abc import Iterator

EFA = ("efa", "efa-only")


def check_launch(call: Call, data: Params, zone: str | None = None) -> None:
    """Reject a launch as EC2 would; `data` has the form of LaunchTemplateData. Raises AwsError."""
    for code, message in problems(call, data, zone):
        raise AwsError(code, message)


def problems(call: Call, data: Params, zone: str | None = None) -> Iterator[tuple[str, str]]:
    """Yield each reason to reject the launch, as EC2's code and a message."""
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    instance_type = data.get("InstanceType")
    if instance_type and instance_type not in INSTANCE_TYPES:
        yield "InvalidParameterValue", f"Invalid value '{instance_type}' for InstanceType."
        return
    if instance_type:
        yield from _interfaces(
            INSTANCE_TYPES[instance_type], instance_type, data.get("NetworkInterfaces") or []
        )
    yield from _placement(call, data)
    yield from _reservation(call, data, zone)


def _interfaces(facts: Any, name: str, interfaces: list[Params]) -> Iterator[tuple[str, str]]:
    network = facts["NetworkInfo"]
    cards = {int(card["NetworkCardIndex"]): card for card in network["NetworkCards"]}
    per_card: dict[int, int] = {}
    seen: set[tuple[int, int]] = set()
    efa = 0
    for one in interfaces:
        card, device = int(one.get("NetworkCardIndex") or 0), int(one.get("DeviceIndex") or 0)
        kind = one.get("InterfaceType") or "interface"
        where = f"network card {card}, device {device}"
        if card not in cards:
            yield "InvalidParameterValue", f"{name} has no network card {card}."
            continue
        if (card, device) in seen:
            yield (
                "InvalidParameterValue",
                f"An interface is given twice: {where}.",
            )
        seen.add((card, device))
        per_card[card] = per_card.get(card, 0) + 1
        efa += kind in EFA
        if kind not in cards[card]["InterfaceTypes"]:
            yield "InvalidParameterCombination", f"{name} does not support interface type {kind} on {where}."
        if kind == "efa-only" and (card, device) == (0, 0):
            yield "InvalidParameterCombination", "The primary network interface cannot be of type efa-only."
        if one.get("AssociatePublicIpAddress") and len(interfaces) > 1:
            message = "The associatePublicIPAddress parameter cannot be specified with multiple interfaces."
            yield "InvalidParameterCombination", message
    for card, count in per_card.items():
        most = cards[card]["MaximumNetworkInterfaces"]
        if count > most:
            yield (
                "AttachmentLimitExceeded",
                f"Network card {card} of {name} takes {most} interfaces.",
            )
    most = (network.get("EfaInfo") or {}).get("MaximumEfaInterfaces", 0)
    if efa > most:
        yield "AttachmentLimitExceeded", f"{name} takes {most} EFA interfaces, not {efa}."
    if interfaces and (0, 0) not in seen:
        yield "InvalidParameterCombination", "A primary interface (card 0, device 0) must be given."


def _placement(call: Call, data: Params) -> Iterator[tuple[str, str]]:
    placement = data.get("Placement") or {}
    name = placement.get("GroupName")
    group = placement_groups.groups_of(call).get(name) if name else None
    if name and group is None:
        yield "InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown."
    if placement.get("PartitionNumber") and (group is None or group.strategy != "partition"):
        yield "InvalidParameterCombination", "PartitionNumber needs a placement group of strategy partition."
    market = (data.get("InstanceMarketOptions") or {}).get("MarketType")
    if market == "capacity-block" and (group is not None or placement.get("GroupId")):
        message = "A placement group cannot be specified for a launch into a Capacity Block."
        yield "InvalidParameterCombination", message


def _reservation(call: Call, data: Params, zone: str | None) -> Iterator[tuple[str, str]]:
    specification = data.get("CapacityReservationSpecification") or {}
    target = specification.get("CapacityReservationTarget") or {}
    reservation_id, group = target.get("CapacityReservationId"), group_target_of(data)
    if target and specification.get("CapacityReservationPreference") not in (None, ONLY):
        message = f"CapacityReservationTarget can be given only with CapacityReservationPreference {ONLY}."
        yield "InvalidParameterCombination", message
    if reservation_id and group:
        message = "Give CapacityReservationId or CapacityReservationResourceGroupArn, not both."
        yield "InvalidParameterCombination", message
    if group and find_group(call.account, call.region, group) is None:
        yield "InvalidParameterValue", f"The resource group '{group}' is not a Capacity Reservation group."
    market = (data.get("InstanceMarketOptions") or {}).get("MarketType")
    if market == "capacity-block" and not reservation_id:
        yield "MissingParameter", "A launch into a Capacity Block must target its reservation by id."
    if not reservation_id:
        return
    reservation = find_reservation(call, reservation_id)
    if (reservation.kind == "capacity-block") != (market == "capacity-block"):
        message = "MarketType capacity-block and a Capacity Block reservation go together, and only together."
        yield "InvalidParameterCombination", message
    instance_type = data.get("InstanceType")
    if instance_type and instance_type != reservation.instance_type:
        message = (
            f"The reservation {reservation_id} is of type {reservation.instance_type}, not {instance_type}."
        )
        yield "InvalidParameterCombination", message
    if zone and zone != reservation.zone:
        message = f"The reservation {reservation_id} is in {reservation.zone}, not in {zone}."
        yield "InvalidParameterCombination", message
    if reservation.state(utcnow()) not in {"active", "scheduled"}:
        yield "InvalidCapacityReservationState", f"The reservation {reservation_id} is not active."
