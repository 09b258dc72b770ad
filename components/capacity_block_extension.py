"""Extensions of a Capacity Block, each bought once: a dynamic resource.

AWS has no token by which a repeated purchase is recognized. The history of the block's extensions is one: the
first entry of a list of extensions is the first one that was bought, and so on. `create` buys only what the
history lacks, so it can be repeated after a run that was killed. The module imports nothing that imports
pulumi_aws.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource, ResourceProvider, UpdateResult

from gpufleet.components.capacity_block_offering import STARTED, refuse_above_cap
from gpufleet.components.dynamic import changed, client, iso
from gpufleet.kinds import BLOCK_EXTENDED_FROM, BLOCK_EXTENDED_UNTIL, EXTENSION_SUFFIX

ASKED = ("reservation_id", "number", "hours", "region")
"""The inputs that decide which extension is bought. A change of one of them means another one."""

PAYMENT_WAIT = timedelta(minutes=10)
"""How long a run waits for a payment. AWS may take 12 hours (EC2 User Guide, "Extend Capacity Blocks")."""

POLL_S = 15.0

FAILED, PAID = "payment-failed", "payment-succeeded"


class ExtensionProvider(ResourceProvider):
    """Buys an extension on create, once. Imported by its name, so an edit here changes no resource."""

    serialize_as_secret_always = False

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Return the extension with this number: the bought one, else a new one. Wait for its payment."""
        number, hours = int(props["number"]), int(props["hours"])
        if not props.get("reservation_id"):
            raise Exception("the Capacity Block to extend is not known")
        ec2 = client(props, "ec2")
        bought = _history(ec2, props)
        if len(bought) < number - 1:
            raise Exception(
                f"{_name(props)} follows {number - 1} others, and AWS lists {len(bought)} that are paid or "
                "pending: run the command again"
            )
        if len(bought) >= number:
            found = bought[number - 1]
            if int(found["CapacityBlockExtensionDurationHours"]) != hours:
                raise Exception(
                    f"{_name(props)} is bought already, for {found['CapacityBlockExtensionDurationHours']} h "
                    f"instead of {hours} h: list every extension of the block in the order of purchase, and "
                    "append another one"
                )
        else:
            found = _buy(ec2, props, number)
        found = _paid(ec2, props, number, found)
        return CreateResult(f"{props['reservation_id']}/{number}", _outputs(props, found))

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Compare what decides the purchase, not client options and the payment limit."""
        different = changed(_olds, _news, ASKED)
        return DiffResult(
            changes=bool(different), replaces=different, stables=[], delete_before_replace=False
        )

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Return the state: a bought extension does not change."""
        return ReadResult(id_, props)

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Never called: every relevant change is a replacement."""
        return UpdateResult(_olds)

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Delete nothing: AWS takes no extension back."""


class CapacityBlockExtension(Resource, module="capacity", name="CapacityBlockExtension"):
    """One extension of a Capacity Block. `end_date` is ISO 8601 in UTC, the fee an exact decimal."""

    end_date: pulumi.Output[str]
    upfront_fee: pulumi.Output[str]
    currency: pulumi.Output[str]

    def __init__(
        self, name: str, props: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        outputs = ("end_date", "upfront_fee", "currency")
        super().__init__(ExtensionProvider(), name, {**props, **dict.fromkeys(outputs)}, opts)


def extend_block(
    name: str,
    *,
    reservation_id: pulumi.Input[str],
    instance_type: str,
    count: int,
    duration: timedelta | None,
    extensions: Sequence[timedelta],
    region: pulumi.Input[str],
    max_upfront_usd: str | None,
    client: Mapping[str, str],
    opts: pulumi.ResourceOptions,
) -> CapacityBlockExtension | None:
    """Register the extensions of a block, one after the other, and return the last one.

    **Each new one spends real money when the program runs: all of it upfront, non-refundable.** The arguments
    are those of `CapacityBlock`; `duration` is that of the block as it was bought, if known.
    """
    last: CapacityBlockExtension | None = None
    hours_before = 0 if duration is None else _hours(duration)
    for number, each in enumerate(extensions, 1):
        last = CapacityBlockExtension(
            f"{name}{EXTENSION_SUFFIX}{number}",
            {
                "reservation_id": reservation_id,
                "number": number,
                "hours": _hours(each),
                "region": region,
                "max_upfront_usd": max_upfront_usd,
                "client": dict(client),
                # What it costs, before AWS reports it.
                "instance_type": instance_type,
                "count": count,
                "hours_before": hours_before,
            },
            pulumi.ResourceOptions.merge(
                opts, pulumi.ResourceOptions(depends_on=[last] if last is not None else [])
            ),
        )
        hours_before += _hours(each)
    return last


def _hours(duration: timedelta) -> int:
    return int(duration / timedelta(hours=1))


def _name(props: Mapping[str, Any]) -> str:
    return f"extension {int(props['number'])} of the Capacity Block {props['reservation_id']}"


def _history(ec2: Any, props: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the extensions of the block that are paid or pending, in the order of their time."""
    pages = ec2.get_paginator("describe_capacity_block_extension_history").paginate(
        CapacityReservationIds=[props["reservation_id"]]
    )
    found = [each for page in pages for each in page["CapacityBlockExtensions"]]
    kept = [each for each in found if each["CapacityBlockExtensionStatus"] != FAILED]
    return sorted(kept, key=lambda each: each["CapacityBlockExtensionStartDate"])


def _buy(ec2: Any, props: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    hours = int(props["hours"])
    end = _end_of_block(ec2, props)
    left = end - datetime.now(UTC)
    if not BLOCK_EXTENDED_UNTIL <= left <= BLOCK_EXTENDED_FROM:
        if os.environ.get(STARTED):
            # A simulated account, whose block does not run when the real one does.
            return _simulated(end, hours)
        raise Exception(
            f"{_name(props)} cannot be bought now: the block ends at {iso(end)}, and AWS extends blocks "
            f"from {BLOCK_EXTENDED_FROM.days} days to 1 hour before their end. Remove the extension from the "
            "fleet file" + (f" until {iso(end - BLOCK_EXTENDED_FROM)}" if left > BLOCK_EXTENDED_FROM else "")
        )
    offered = [
        each
        for each in ec2.describe_capacity_block_extension_offerings(
            CapacityReservationId=props["reservation_id"], CapacityBlockExtensionDurationHours=hours
        )["CapacityBlockExtensionOfferings"]
        if int(each["CapacityBlockExtensionDurationHours"]) == hours
        and _same(each["CapacityBlockExtensionStartDate"], end)
    ]
    if not offered:
        raise Exception(
            f"AWS offers no {hours} h for {_name(props)}, which ends at {iso(end)}: extensions need free "
            "capacity. Request another length, or another block"
        )
    offering = min(offered, key=lambda each: float(each["UpfrontFee"]))
    refuse_above_cap(offering, props.get("max_upfront_usd"), _name(props))
    made: list[Mapping[str, Any]] = ec2.purchase_capacity_block_extension(
        CapacityReservationId=props["reservation_id"],
        CapacityBlockExtensionOfferingId=offering["CapacityBlockExtensionOfferingId"],
    )["CapacityBlockExtensions"]
    bought = [each for each in made if _same(each["CapacityBlockExtensionStartDate"], end)]
    return bought[0] if bought else _history(ec2, props)[number - 1]


def _same(moment: datetime, other: datetime) -> bool:
    """Return whether two dates of AWS are one: it may report the second before."""
    return abs(moment - other) < timedelta(minutes=1)


def _simulated(end: datetime, hours: int) -> Mapping[str, Any]:
    return {
        "CapacityBlockExtensionStatus": PAID,
        "CapacityBlockExtensionEndDate": end + timedelta(hours=hours),
    }


def _end_of_block(ec2: Any, props: Mapping[str, Any]) -> datetime:
    """Return the end of the block with the extensions that are paid."""
    wanted = [props["reservation_id"]]
    found = ec2.describe_capacity_reservations(CapacityReservationIds=wanted)["CapacityReservations"]
    end = found[0].get("EndDate") if found else None
    if not isinstance(end, datetime):
        raise Exception(f"{props['reservation_id']} is not a Capacity Block with an end: use one that is")
    return end


def _paid(ec2: Any, props: Mapping[str, Any], number: int, found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Wait until an extension is paid: only then the block ends later."""
    deadline = time.monotonic() + PAYMENT_WAIT / timedelta(seconds=1)
    while found["CapacityBlockExtensionStatus"] != PAID:
        if time.monotonic() >= deadline:
            raise Exception(
                f"{_name(props)} is bought, and its payment is pending: run the command again later, which "
                "waits for it and buys nothing twice. AWS takes up to 12 hours"
            )
        time.sleep(POLL_S)
        known = _history(ec2, props)
        if len(known) < number:
            raise Exception(
                f"the payment of {_name(props)} failed, and the block keeps its end: check how the account "
                "pays, and run the command again"
            )
        found = known[number - 1]
    return found


def _outputs(props: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    fee = found.get("UpfrontFee")
    kept = (*ASKED, "instance_type", "count", "hours_before")
    return {
        **{key: props[key] for key in kept},
        "end_date": iso(found["CapacityBlockExtensionEndDate"]),
        "upfront_fee": None if fee is None else str(fee),
        "currency": str(found.get("CurrencyCode") or "USD"),
    }
