"""EC2 capacity reservations: On-Demand ones here, and the store that Capacity Blocks share.

A reservation's state follows the clock: scheduled until its start, active until its end, expired after it. It
is computed on request.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import Any

from moto.core.base_backend import BackendDict, BaseBackend
from moto.core.utils import utcnow

from gpufleet.lab.aws.backends import ec2_placement_groups as placement_groups
from gpufleet.lab.aws.backends import ec2_support as ec2
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, operation
from gpufleet.lab.aws.backends.ram_shares import shared_with

MAX_INSTANCES = 1000
"""Maximum instances of one CreateCapacityReservation request (EC2 API reference)."""

FILTERS = {
    "instance-type": "InstanceType",
    "owner-id": "OwnerId",
    "instance-platform": "InstancePlatform",
    "availability-zone": "AvailabilityZone",
    "availability-zone-id": "AvailabilityZoneId",
    "tenancy": "Tenancy",
    "state": "State",
    "end-date-type": "EndDateType",
    "instance-match-criteria": "InstanceMatchCriteria",
    "placement-group-arn": "PlacementGroupArn",
    "capacity-reservation-arn": "CapacityReservationArn",
    "reservation-type": "ReservationType",
}


@dataclass(frozen=True)
class Reservation:
    """Reserved instances of one type in one zone. Times are naive UTC, as in moto."""

    reservation_id: str
    arn: str
    owner: str
    instance_type: str
    platform: str
    zone: str
    zone_id: str
    count: int
    created: dt.datetime
    start: dt.datetime
    end: dt.datetime | None
    tenancy: str = "default"
    match: str = "open"
    ebs_optimized: bool = False
    placement_group_arn: str | None = None
    kind: str = "default"
    block_id: str | None = None
    cancelled: bool = False

    def state(self, now: dt.datetime) -> str:
        """scheduled, active, expired or cancelled at `now`."""
        if self.cancelled:
            return "cancelled"
        if now < self.start:
            return "scheduled"
        return "expired" if self.end is not None and now >= self.end else "active"


class ReservationBackend(BaseBackend):  # type: ignore[misc]
    """The capacity reservations of one account and region, by id."""

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.reservations: dict[str, Reservation] = {}


reservation_backends = BackendDict(ReservationBackend, "ec2")


def reservations_of(call: Call) -> dict[str, Reservation]:
    """The caller's reservations by id, cancelled and expired ones included."""
    backend: ReservationBackend = reservation_backends[call.account][call.region]
    return backend.reservations


def find(call: Call, reservation_id: str) -> Reservation:
    """The reservation of that id; EC2's own error when there is none."""
    found = reservations_of(call).get(reservation_id) or shared_reservations(call).get(reservation_id)
    if found is None:
        message = f"The capacity reservation '{reservation_id}' does not exist."
        raise AwsError("InvalidCapacityReservationId.NotFound", message)
    return found


def shared_reservations(call: Call) -> dict[str, Reservation]:
    """Return the reservations that other accounts share with the caller, by id."""
    return {
        identity: held
        for owner, regions in list(reservation_backends.items())
        if owner != call.account and (arns := shared_with(call.account, owner, call.region))
        for identity, held in regions[call.region].reservations.items()
        if held.arn in arns
    }


def zone_of(call: Call, name: str | None, zone_id: str | None = None) -> Any:
    """moto's zone of that name or id in the caller's region."""
    zones = ec2.ec2_backend(call).zones[call.region]
    for zone in zones:
        if zone.name == name or (zone_id and zone.zone_id == zone_id):
            return zone
    message = f"Invalid availability zone: [{name or zone_id}]"
    raise AwsError("InvalidParameterValue", message)


def require_type(call: Call, instance_type: str) -> None:
    """Reject an instance type that EC2 does not have."""
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    if instance_type not in INSTANCE_TYPES:
        raise AwsError(
            "InvalidInstanceType", f"The following supplied instance type is invalid: {instance_type}"
        )


@operation("ec2", "CreateCapacityReservation")
def create_capacity_reservation(call: Call) -> Params:
    """Reserve instances from now on, until an end date or until cancelled."""
    given = call.params
    count = int(given["InstanceCount"])
    if not 1 <= count <= MAX_INSTANCES:
        raise AwsError("InvalidParameterValue", f"InstanceCount must be between 1 and {MAX_INSTANCES}.")
    require_type(call, given["InstanceType"])
    if not given.get("AvailabilityZone") and not given.get("AvailabilityZoneId"):
        raise AwsError("MissingParameter", "AvailabilityZone or AvailabilityZoneId must be specified.")
    zone = zone_of(call, given.get("AvailabilityZone"), given.get("AvailabilityZoneId"))
    group_arn = given.get("PlacementGroupArn")
    if group_arn:
        group = placement_groups.find(call, name=group_arn.rpartition("/")[2])
        if group.strategy != "cluster":
            raise AwsError("InvalidParameterValue", "The placement group must use the cluster strategy.")
    now = utcnow()
    reservation_id = ec2.new_id("cr")
    reservation = Reservation(
        reservation_id=reservation_id,
        arn=f"arn:{call.partition}:ec2:{call.region}:{call.account}:capacity-reservation/{reservation_id}",
        owner=call.account,
        instance_type=given["InstanceType"],
        platform=given["InstancePlatform"],
        zone=zone.name,
        zone_id=zone.zone_id,
        count=count,
        created=now,
        start=given.get("StartDate") or now,
        end=_end(given, now),
        tenancy=given.get("Tenancy") or "default",
        match=given.get("InstanceMatchCriteria") or "open",
        ebs_optimized=bool(given.get("EbsOptimized")),
        placement_group_arn=group_arn,
    )
    tags = ec2.tags_from(call, "capacity-reservation")
    reservations_of(call)[reservation_id] = reservation
    ec2.set_tags(call, reservation_id, tags)
    return {"CapacityReservation": answer(call, reservation)}


@operation("ec2", "DescribeCapacityReservations")
def describe_capacity_reservations(call: Call) -> Params:
    """List reservations by id or filters."""
    ids = call.params.get("CapacityReservationIds") or []
    every = {**reservations_of(call), **shared_reservations(call)}
    chosen = [find(call, one) for one in ids] or list(every.values())
    answers = [(one, answer(call, one)) for one in chosen]
    filters = call.params.get("Filters") or []
    kept = [a for one, a in answers if ec2.matches(call, one.reservation_id, a, filters, FILTERS)]
    items, token = ec2.page(call, kept)
    return {"CapacityReservations": items, "NextToken": token}


@operation("ec2", "ModifyCapacityReservation")
def modify_capacity_reservation(call: Call) -> Params:
    """Change count, end or match criteria of an active On-Demand reservation."""
    given = call.params
    old = _changeable(call, given["CapacityReservationId"], "modified")
    changes: dict[str, Any] = {}
    if given.get("InstanceCount") is not None:
        changes["count"] = int(given["InstanceCount"])
        if not used(call, old) <= changes["count"] <= MAX_INSTANCES or changes["count"] < 1:
            raise AwsError("InvalidParameterValue", "InstanceCount is below what is in use or out of range.")
    if given.get("EndDate") or given.get("EndDateType"):
        changes["end"] = _end(given, utcnow())
    if given.get("InstanceMatchCriteria"):
        changes["match"] = given["InstanceMatchCriteria"]
    reservations_of(call)[old.reservation_id] = replace(old, **changes)
    return {"Return": True}


@operation("ec2", "CancelCapacityReservation")
def cancel_capacity_reservation(call: Call) -> Params:
    """Cancel an On-Demand reservation; it stays visible as cancelled, as in EC2."""
    old = _changeable(call, call.params["CapacityReservationId"], "cancelled")
    reservations_of(call)[old.reservation_id] = replace(old, cancelled=True)
    return {"Return": True}


def used(call: Call, reservation: Reservation) -> int:
    """Running instances in the reservation, those of accounts with which it is shared included."""
    from moto.ec2.models import ec2_backends

    return sum(used_in(regions[call.region], reservation) for regions in list(ec2_backends.values()))


def used_in(backend: Any, reservation: Reservation) -> int:
    """Running instances of one of moto's EC2 backends in the reservation."""
    count = 0
    for instance in backend.all_instances():
        if instance.state not in {"running", "pending"}:
            continue
        target = getattr(instance, "capacity_reservation_id", None)
        if target == reservation.reservation_id:
            count += 1
    return count


def answer(call: Call, reservation: Reservation) -> Params:
    """The reservation as EC2 describes it."""
    state = reservation.state(utcnow())
    in_use = used(call, reservation)
    answered: Params = {
        "CapacityReservationId": reservation.reservation_id,
        "OwnerId": reservation.owner,
        "CapacityReservationArn": reservation.arn,
        "AvailabilityZone": reservation.zone,
        "AvailabilityZoneId": reservation.zone_id,
        "InstanceType": reservation.instance_type,
        "InstancePlatform": reservation.platform,
        "Tenancy": reservation.tenancy,
        "TotalInstanceCount": reservation.count if state in {"active", "scheduled"} else 0,
        "AvailableInstanceCount": max(0, reservation.count - in_use) if state == "active" else 0,
        "EbsOptimized": reservation.ebs_optimized,
        "EphemeralStorage": False,
        "State": state,
        "StartDate": reservation.start,
        "EndDateType": "limited" if reservation.end else "unlimited",
        "InstanceMatchCriteria": reservation.match,
        "CreateDate": reservation.created,
        "Tags": ec2.tag_list(call, reservation.reservation_id),
        "ReservationType": reservation.kind,
    }
    optional = {
        "EndDate": reservation.end,
        "PlacementGroupArn": reservation.placement_group_arn,
        "CapacityBlockId": reservation.block_id,
    }
    return answered | {key: value for key, value in optional.items() if value is not None}


def _changeable(call: Call, reservation_id: str, verb: str) -> Reservation:
    found = find(call, reservation_id)
    if found.kind == "capacity-block":
        raise AwsError("InvalidRequest", f"Capacity Block reservations cannot be {verb}.")
    state = found.state(utcnow())
    if state not in {"active", "scheduled"}:
        message = f"The capacity reservation '{reservation_id}' is {state} and cannot be {verb}."
        raise AwsError("InvalidCapacityReservationState", message)
    return found


def _end(given: Params, now: dt.datetime) -> dt.datetime | None:
    end: dt.datetime | None = given.get("EndDate")
    kind = given.get("EndDateType") or ("limited" if end else "unlimited")
    if kind == "limited" and end is None:
        raise AwsError("MissingParameter", "EndDate must be specified if EndDateType is limited.")
    if kind == "unlimited" and end is not None:
        raise AwsError(
            "InvalidParameterCombination", "EndDate must not be given if EndDateType is unlimited."
        )
    if end is not None and end <= now:
        raise AwsError("InvalidParameterValue", "EndDate must be in the future.")
    return end
