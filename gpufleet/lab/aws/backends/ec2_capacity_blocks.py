"""EC2 Capacity Blocks for ML: offerings, purchase, and the blocks bought.

Rules from the EC2 user guide ("Capacity Blocks for ML", how they work): durations in one-day steps
to 14 days and then seven-day steps to 182 days, up to eight weeks ahead, at most 64 instances in a
block and 256 in all, days that begin and end at 11:30 UTC, paid upfront, never cancelled.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import dataclass
from typing import Any

from moto.core.base_backend import BackendDict, BaseBackend
from moto.core.utils import utcnow

from gpufleet.lab.aws.backends import ec2_capacity_reservations as reservations
from gpufleet.lab.aws.backends import ec2_support as ec2
from gpufleet.lab.aws.backends.ec2_block_prices import upfront_fee
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, operation

DAY_STARTS_UTC = dt.time(11, 30)
DAILY_STEPS_TO_DAYS = 14
WEEKLY_STEPS_TO_DAYS = 182
BOOK_AHEAD = dt.timedelta(weeks=8)
MAX_INSTANCES = 64
MAX_INSTANCES_ALL_BLOCKS = 256

_FILTERS = {
    "capacity-block-id": "CapacityBlockId",
    "availability-zone": "AvailabilityZone",
    "state": "State",
    "start-date": "StartDate",
    "end-date": "EndDate",
}


@dataclass(frozen=True)
class Offering:
    """A block that may be bought. Times are naive UTC."""

    offering_id: str
    instance_type: str
    zone: str
    zone_id: str
    count: int
    start: dt.datetime
    end: dt.datetime
    fee: str


@dataclass(frozen=True)
class Block:
    """A block that was bought; its reservation carries state and counts."""

    block_id: str
    reservation_id: str


class CapacityBlockBackend(BaseBackend):  # type: ignore[misc]
    """Offerings shown and blocks bought in one account and region."""

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.offerings: dict[str, Offering] = {}
        self.blocks: dict[str, Block] = {}


capacity_block_backends = BackendDict(CapacityBlockBackend, "ec2")


def blocks_of(call: Call) -> CapacityBlockBackend:
    """Return the offerings and blocks of the caller."""
    found: CapacityBlockBackend = capacity_block_backends[call.account][call.region]
    return found


def end_block(reservation_id: str) -> bool:
    """End a block at once: it and its reservation are removed. Return False if there is none.

    This is not an AWS operation: in AWS a block runs, paid, to its end. It simulates that end, so that a
    sandbox can be emptied.
    """
    for account, regions in capacity_block_backends.items():
        for region, backend in regions.items():
            for block in [one for one in backend.blocks.values() if one.reservation_id == reservation_id]:
                del backend.blocks[block.block_id]
                reservations.reservation_backends[account][region].reservations.pop(reservation_id, None)
                return True
    return False


@operation("ec2", "DescribeCapacityBlockOfferings")
def describe_capacity_block_offerings(call: Call) -> Params:
    """Return one offering per zone that has the type and per day that fits.

    Returned offerings are kept, so that their ids can be bought after a restart, and the same request on the
    same day returns the same ids.
    """
    given, now = call.params, utcnow()
    instance_type, count = given.get("InstanceType"), int(given.get("InstanceCount", 1))
    if not instance_type:
        raise AwsError("MissingParameter", "The request must contain the parameter InstanceType.")
    duration = block_duration(int(given["CapacityDurationHours"]))
    if not 1 <= count <= MAX_INSTANCES:
        raise AwsError("InvalidParameterValue", f"InstanceCount must be between 1 and {MAX_INSTANCES}.")
    _require_block_type(call, instance_type)
    earliest = max(given.get("StartDateRange") or now, now)
    latest_end = given.get("EndDateRange") or now + BOOK_AHEAD + duration
    if given.get("StartDateRange") and given["StartDateRange"] > now + BOOK_AHEAD:
        raise AwsError("InvalidParameterValue", "StartDateRange must be within the next 8 weeks.")
    if latest_end < earliest + duration:
        message = "The range from StartDateRange to EndDateRange must hold CapacityDurationHours."
        raise AwsError("InvalidParameterValue", message)
    found = [
        _offering(call, instance_type, zone, count, start, duration)
        for start in _starts(earliest, min(now + BOOK_AHEAD, latest_end - duration))
        for zone in _zones(call, instance_type)
    ]
    backend = blocks_of(call)
    backend.offerings = {k: o for k, o in backend.offerings.items() if o.start > now}
    items, token = ec2.page(call, found, default=100)
    backend.offerings.update({one.offering_id: one for one in items})
    return {"CapacityBlockOfferings": [_offering_answer(one) for one in items], "NextToken": token}


@operation("ec2", "PurchaseCapacityBlock")
def purchase_capacity_block(call: Call) -> Params:
    """Buy an offering: a reservation that is scheduled until its start and cannot be cancelled."""
    backend, now = blocks_of(call), utcnow()
    offering = backend.offerings.get(call.params["CapacityBlockOfferingId"])
    if offering is None or offering.start <= now:
        message = f"The capacity block offering '{call.params['CapacityBlockOfferingId']}' is not available."
        raise AwsError("InvalidCapacityBlockOfferingId.NotFound", message)
    if offering.count + _instances_held(call, now) > MAX_INSTANCES_ALL_BLOCKS:
        message = f"An account holds at most {MAX_INSTANCES_ALL_BLOCKS} instances in Capacity Blocks."
        raise AwsError("CapacityBlockInstanceLimitExceeded", message)
    specifications = call.params.get("TagSpecifications") or []
    tags = {t["Key"]: t.get("Value", "") for one in specifications for t in one.get("Tags") or []}
    block_id, reservation_id = ec2.new_id("cb"), ec2.new_id("cr")
    owner = f"arn:{call.partition}:ec2:{call.region}:{call.account}"
    reservation = reservations.Reservation(
        reservation_id=reservation_id,
        arn=f"{owner}:capacity-reservation/{reservation_id}",
        owner=call.account,
        instance_type=offering.instance_type,
        platform=call.params["InstancePlatform"],
        zone=offering.zone,
        zone_id=offering.zone_id,
        count=offering.count,
        created=now,
        start=offering.start,
        end=offering.end,
        match="targeted",
        kind="capacity-block",
        block_id=block_id,
    )
    reservations.reservations_of(call)[reservation_id] = reservation
    backend.blocks[block_id] = Block(block_id, reservation_id)
    for one in (reservation_id, block_id):
        ec2.set_tags(call, one, tags)
    return {
        "CapacityReservation": reservations.answer(call, reservation),
        "CapacityBlocks": [_block_answer(call, backend.blocks[block_id])],
    }


@operation("ec2", "DescribeCapacityBlocks")
def describe_capacity_blocks(call: Call) -> Params:
    """The blocks bought."""
    answers = [(one, _block_answer(call, one)) for one in _chosen(call)]
    filters = call.params.get("Filters") or []
    kept = [a for one, a in answers if ec2.matches(call, one.block_id, a, filters, _FILTERS)]
    items, token = ec2.page(call, kept)
    return {"CapacityBlocks": items, "NextToken": token}


@operation("ec2", "DescribeCapacityBlockStatus")
def describe_capacity_block_status(call: Call) -> Params:
    """Capacity and interconnect of the blocks bought; all healthy."""
    statuses = []
    for block in _chosen(call):
        reservation = reservations.find(call, block.reservation_id)
        available = reservations.answer(call, reservation)["AvailableInstanceCount"]
        total = reservation.count
        capacity = {
            "TotalCapacity": total,
            "TotalAvailableCapacity": available,
            "TotalUnavailableCapacity": total - available,
        }
        statuses.append(
            {
                "CapacityBlockId": block.block_id,
                "InterconnectStatus": "ok",
                **capacity,
                "CapacityReservationStatuses": [
                    {"CapacityReservationId": reservation.reservation_id, **capacity}
                ],
            }
        )
    items, token = ec2.page(call, statuses)
    return {"CapacityBlockStatuses": items, "NextToken": token}


def _chosen(call: Call) -> list[Block]:
    blocks = blocks_of(call).blocks
    ids = call.params.get("CapacityBlockIds") or []
    for one in ids:
        if one not in blocks:
            raise AwsError("InvalidCapacityBlockId.NotFound", f"The capacity block '{one}' does not exist.")
    return [blocks[one] for one in ids] or list(blocks.values())


def block_duration(hours: int) -> dt.timedelta:
    """Return the length of a block or an extension; EC2's own error for one that AWS does not sell."""
    days, rest = divmod(hours, 24)
    daily = 1 <= days <= DAILY_STEPS_TO_DAYS
    weekly = DAILY_STEPS_TO_DAYS < days <= WEEKLY_STEPS_TO_DAYS and days % 7 == 0
    if rest or not (daily or weekly):
        message = (
            f"CapacityDurationHours {hours} is not offered: whole days up to {DAILY_STEPS_TO_DAYS}, "
            f"then whole weeks up to {WEEKLY_STEPS_TO_DAYS} days."
        )
        raise AwsError("InvalidParameterValue", message)
    return dt.timedelta(hours=hours)


def _require_block_type(call: Call, instance_type: str) -> None:
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    reservations.require_type(call, instance_type)
    if "capacity-block" not in INSTANCE_TYPES[instance_type]["SupportedUsageClasses"]:
        message = f"The instance type {instance_type} is not supported for Capacity Blocks."
        raise AwsError("InvalidParameterValue", message)


def _zones(call: Call, instance_type: str) -> list[Any]:
    from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS

    offered = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(call.region, [])
    names = {one["Location"] for one in offered if one["InstanceType"] == instance_type}
    return [zone for zone in ec2.ec2_backend(call).zones[call.region] if zone.name in names]


def _starts(earliest: dt.datetime, latest: dt.datetime) -> list[dt.datetime]:
    first = dt.datetime.combine(earliest.date(), DAY_STARTS_UTC)
    if first < earliest:
        first += dt.timedelta(days=1)
    days = max(0, (latest - first) // dt.timedelta(days=1) + 1)
    return [first + dt.timedelta(days=day) for day in range(days)]


def _offering(
    call: Call, instance_type: str, zone: Any, count: int, start: dt.datetime, duration: dt.timedelta
) -> Offering:
    fee, known = upfront_fee(instance_type, call.region, count, duration)
    facts = f"{call.account} {instance_type} {zone.name} {count} {start.isoformat()} {duration}"
    mark = "" if known else "fictitious-price-"
    return Offering(
        offering_id=f"cbo-{mark}{hashlib.sha256(facts.encode()).hexdigest()[:17]}",
        instance_type=instance_type,
        zone=zone.name,
        zone_id=zone.zone_id,
        count=count,
        start=start,
        end=start + duration,
        fee=fee,
    )


def _offering_answer(one: Offering) -> Params:
    hours, rest = divmod(one.end - one.start, dt.timedelta(hours=1))
    return {
        "CapacityBlockOfferingId": one.offering_id,
        "InstanceType": one.instance_type,
        "AvailabilityZone": one.zone,
        "InstanceCount": one.count,
        "StartDate": one.start,
        "EndDate": one.end,
        "CapacityBlockDurationHours": hours,
        "CapacityBlockDurationMinutes": rest // dt.timedelta(minutes=1),
        "UpfrontFee": one.fee,
        "CurrencyCode": "USD",
        "Tenancy": "default",
    }


def _block_answer(call: Call, block: Block) -> Params:
    reservation = reservations.find(call, block.reservation_id)
    return {
        "CapacityBlockId": block.block_id,
        "AvailabilityZone": reservation.zone,
        "AvailabilityZoneId": reservation.zone_id,
        "CapacityReservationIds": [reservation.reservation_id],
        "StartDate": reservation.start,
        "EndDate": reservation.end,
        "CreateDate": reservation.created,
        "State": reservation.state(utcnow()),
        "Tags": ec2.tag_list(call, block.block_id),
    }


def _instances_held(call: Call, now: dt.datetime) -> int:
    every = reservations.reservations_of(call).values()
    held = [
        one for one in every if one.kind == "capacity-block" and one.state(now) in {"active", "scheduled"}
    ]
    return sum(one.count for one in held)
