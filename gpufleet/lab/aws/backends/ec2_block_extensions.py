"""Extensions of EC2 Capacity Blocks: offerings, purchase, and those bought.

Rules from the EC2 User Guide, "Extend Capacity Blocks": the block is active or scheduled, has no extension
whose payment is pending, and ends in 1 hour to 56 days; the length is that of a block; the reservation keeps
its id and gets another end. Payments succeed at once here. AWS does not document the error codes.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import dataclass, replace

from moto.core.utils import utcnow

from gpufleet.lab.aws.backends import ec2_capacity_reservations as reservations
from gpufleet.lab.aws.backends import ec2_support as ec2
from gpufleet.lab.aws.backends.ec2_block_prices import upfront_fee
from gpufleet.lab.aws.backends.ec2_capacity_blocks import CapacityBlockBackend, block_duration, blocks_of
from gpufleet.lab.aws.backends.ec2_capacity_reservations import Reservation
from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, operation

EARLIEST, LATEST = dt.timedelta(days=56), dt.timedelta(hours=1)
"""How long before its end a block can be extended."""

_FILTERS = {
    "availability-zone": "AvailabilityZone",
    "availability-zone-id": "AvailabilityZoneId",
    "capacity-block-extension-offering-id": "CapacityBlockExtensionOfferingId",
    "capacity-block-extension-status": "CapacityBlockExtensionStatus",
    "capacity-reservation-id": "CapacityReservationId",
    "instance-type": "InstanceType",
}


@dataclass(frozen=True)
class Extension:
    """An extension that may be bought, or that was. Times are naive UTC."""

    offering_id: str
    reservation_id: str
    start: dt.datetime
    end: dt.datetime
    fee: str
    bought: dt.datetime | None = None


@operation("ec2", "DescribeCapacityBlockExtensionOfferings")
def describe_offerings(call: Call) -> Params:
    """Return the one offering of the requested length for a block."""
    held = _extendable(call, call.params["CapacityReservationId"])
    duration = block_duration(int(call.params["CapacityBlockExtensionDurationHours"]))
    assert held.end is not None  # noqa: S101 - a Capacity Block
    fee, known = upfront_fee(held.instance_type, call.region, held.count, duration)
    facts = f"{call.account} {held.reservation_id} {held.end.isoformat()} {duration}"
    mark = "" if known else "fictitious-price-"
    offering = Extension(
        f"cbeo-{mark}{hashlib.sha256(facts.encode()).hexdigest()[:17]}",
        held.reservation_id,
        held.end,
        held.end + duration,
        fee,
    )
    _offerings(blocks_of(call))[offering.offering_id] = offering
    items, token = ec2.page(call, [_offering_answer(held, offering)])
    return {"CapacityBlockExtensionOfferings": items, "NextToken": token}


@operation("ec2", "PurchaseCapacityBlockExtension")
def purchase(call: Call) -> Params:
    """Buy an offering: the reservation ends later."""
    backend, now = blocks_of(call), utcnow()
    held = _extendable(call, call.params["CapacityReservationId"])
    wanted = call.params["CapacityBlockExtensionOfferingId"]
    offering = _offerings(backend).get(wanted)
    # An offering begins where the block ends: after another purchase it is void.
    if offering is None or (offering.reservation_id, offering.start) != (held.reservation_id, held.end):
        message = f"The capacity block extension offering '{wanted}' is not available."
        raise AwsError("InvalidCapacityBlockExtensionOfferingId.NotFound", message)
    extension = replace(offering, bought=now)
    extensions_of(backend).append(extension)
    reservations.reservations_of(call)[held.reservation_id] = replace(held, end=offering.end)
    return {"CapacityBlockExtensions": [_answer(held, extension)]}


@operation("ec2", "DescribeCapacityBlockExtensionHistory")
def describe_history(call: Call) -> Params:
    """Return the extensions bought, in the order of their purchase."""
    ids = call.params.get("CapacityReservationIds") or []
    answers = []
    for each in extensions_of(blocks_of(call)):
        held = reservations.reservations_of(call).get(each.reservation_id)
        if held is not None and (not ids or each.reservation_id in ids):
            answers.append(_answer(held, each))
    filters = call.params.get("Filters") or []
    kept = [each for each in answers if ec2.matches(call, "", each, filters, _FILTERS)]
    items, token = ec2.page(call, kept)
    return {"CapacityBlockExtensions": items, "NextToken": token}


def extensions_of(backend: CapacityBlockBackend) -> list[Extension]:
    """Return the extensions bought; a state from before has none."""
    kept: list[Extension] = backend.__dict__.setdefault("extensions", [])
    return kept


def _offerings(backend: CapacityBlockBackend) -> dict[str, Extension]:
    kept: dict[str, Extension] = backend.__dict__.setdefault("extension_offerings", {})
    return kept


def _extendable(call: Call, reservation_id: str) -> Reservation:
    held, now = reservations.find(call, reservation_id), utcnow()
    if held.kind != "capacity-block" or held.end is None:
        raise AwsError("InvalidParameterValue", f"{reservation_id} is not a Capacity Block.")
    state = held.state(now)
    if state not in {"active", "scheduled"}:
        message = f"The Capacity Block {reservation_id} is {state} and cannot be extended."
        raise AwsError("InvalidCapacityReservationState", message)
    if not LATEST <= held.end - now <= EARLIEST:
        message = (
            f"The Capacity Block {reservation_id} ends at {held.end.isoformat()}Z: it can be extended from"
            " 56 days to 1 hour before its end."
        )
        raise AwsError("InvalidParameterValue", message)
    return held


def _facts(held: Reservation, extension: Extension) -> Params:
    hours = int((extension.end - extension.start) / dt.timedelta(hours=1))
    return {
        "CapacityBlockExtensionOfferingId": extension.offering_id,
        "InstanceType": held.instance_type,
        "InstanceCount": held.count,
        "AvailabilityZone": held.zone,
        "AvailabilityZoneId": held.zone_id,
        "CapacityBlockExtensionStartDate": extension.start,
        "CapacityBlockExtensionEndDate": extension.end,
        "CapacityBlockExtensionDurationHours": hours,
        "UpfrontFee": extension.fee,
        "CurrencyCode": "USD",
    }


def _offering_answer(held: Reservation, offering: Extension) -> Params:
    return _facts(held, offering) | {"StartDate": held.start, "Tenancy": "default"}


def _answer(held: Reservation, extension: Extension) -> Params:
    return _facts(held, extension) | {
        "CapacityReservationId": held.reservation_id,
        "CapacityBlockExtensionStatus": "payment-succeeded",
        "CapacityBlockExtensionPurchaseDate": extension.bought,
    }
