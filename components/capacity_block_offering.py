"""A Capacity Block offering, searched once and kept in the state: a dynamic resource.

Offerings are valid for minutes and start at fixed dates, so every search returns another one. `create`
searches, `diff` compares only the requested values, and `read` does not search. The module imports nothing
that imports pulumi_aws, which its plugin would load at each start.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource, ResourceProvider, UpdateResult

from gpufleet.components.dynamic import changed, client, iso

ASKED = ("instance_type", "count", "duration_hours", "start", "zones", "region")
"""The inputs that decide which block is bought. A change of one of them means another block, except `zones`
that still contain the zone of the bought block.
"""

START_WITHIN = timedelta(hours=36)
"""How long after the requested start a block may start: blocks begin once a day, so the next day's fits."""

STARTED = "GPUFLEET_STARTED_BLOCKS"
"""Environment variable for a simulated account: a block whose start is past is searched as if it started now.
`gpufleet check` sets it for fleets with a running block."""

_RELATIVE = re.compile(r"^in\s+(\d+)\s*(h|d|w)$")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


class OfferingProvider(ResourceProvider):
    """Searches an offering on create. Imported by its name, so an edit here changes no resource."""

    serialize_as_secret_always = False

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Return the earliest, then cheapest offering that fits; fail if none does or it costs too much."""
        now = datetime.now(UTC)
        wanted = resolve_start(str(props["start"]), now)
        if wanted < now and os.environ.get(STARTED):
            wanted = now
        if wanted < now:
            raise Exception(
                f"the start {props['start']} of the Capacity Block has passed, and blocks are sold before "
                "they start: request a later start, or remove its node group from the fleet file if the "
                "block has ended"
            )
        window = Window.of(wanted, _hours(props))
        found = choose(_offerings(props, window.earliest, window.end), props["zones"], window)
        if found is None:
            offered = _offerings(props, window.earliest, None)
            raise Exception(
                f"no Capacity Block of {_count(props)} x {props['instance_type']} for "
                f"{window.hours} h in {', '.join(props['zones'])} starts from "
                f"{window.earliest:%Y-%m-%d %H:%M} to {window.latest:%Y-%m-%d %H:%M} UTC: request another "
                f"start, duration, zone or number of nodes; {_alternatives(offered)}"
            )
        refuse_above_cap(found, props.get("max_upfront_usd"))
        outputs = {
            **{key: props[key] for key in ASKED},
            "offering_id": found["CapacityBlockOfferingId"],
            "zone": found["AvailabilityZone"],
            "start_date": iso(found["StartDate"]),
            "end_date": iso(found["EndDate"]),
            "upfront_fee": str(found["UpfrontFee"]),
            "currency": str(found.get("CurrencyCode") or "USD"),
        }
        return CreateResult(found["CapacityBlockOfferingId"], outputs)

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Compare the requested values only, not the client options and the payment limit."""
        different = changed(_olds, _news, ASKED)
        # With other zones, the paid block stays if its own zone is among them.
        if "zones" in different and _olds.get("zone") in _news["zones"]:
            different.remove("zones")
        return DiffResult(
            changes=bool(different), replaces=different, stables=[], delete_before_replace=False
        )

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Return the state: AWS no longer lists an offering that was bought."""
        return ReadResult(id_, props)

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Never called: every relevant change is a replacement."""
        return UpdateResult(_olds)

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Delete nothing: an offering is not a resource in AWS."""


class CapacityBlockOffering(Resource, module="capacity", name="CapacityBlockOffering"):
    """The selected offering. Dates are ISO 8601 in UTC, the fee is an exact decimal."""

    offering_id: pulumi.Output[str]
    zone: pulumi.Output[str]
    start_date: pulumi.Output[str]
    end_date: pulumi.Output[str]
    upfront_fee: pulumi.Output[str]
    currency: pulumi.Output[str]

    def __init__(
        self, name: str, props: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        outputs = ("offering_id", "zone", "start_date", "end_date", "upfront_fee", "currency")
        super().__init__(OfferingProvider(), name, {**props, **dict.fromkeys(outputs)}, opts)


def resolve_start(text: str, now: datetime) -> datetime:
    """Parse `in 14 d`, `in 48 h` or an ISO 8601 date. Raises ValueError for other text."""
    relative = _RELATIVE.match(text.strip())
    if relative:
        return now + timedelta(**{_UNITS[relative[2]]: int(relative[1])})
    moment = datetime.fromisoformat(text.strip())
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Window:
    """Blocks that fit: they last `hours` or less than an hour more, and start from `earliest` to `latest`.

    Blocks end at 11:30 UTC, so AWS also offers some that are longer by minutes than the requested days.
    """

    earliest: datetime
    latest: datetime
    hours: int

    @classmethod
    def of(cls, wanted: datetime, hours: int) -> Window:
        """Return the window of a block requested for a time."""
        return cls(wanted, wanted + START_WITHIN, hours)

    @property
    def end(self) -> datetime:
        """Return when the latest of them has ended."""
        return self.latest + timedelta(hours=self.hours)

    def holds(self, offering: Mapping[str, Any]) -> bool:
        """Return whether the offering fits. AWS also returns blocks of other durations."""
        return (
            self.earliest <= offering["StartDate"] <= self.latest
            and int(offering["CapacityBlockDurationHours"]) == self.hours
        )


def choose(
    offerings: Sequence[Mapping[str, Any]], zones: Sequence[str], window: Window
) -> Mapping[str, Any] | None:
    """Return the offering that starts first in one of the zones and in the window; the cheapest of equals."""
    fitting = [o for o in offerings if o["AvailabilityZone"] in zones and window.holds(o)]
    return min(fitting, key=_soon_and_cheap, default=None)


def refuse_above_cap(offering: Mapping[str, Any], cap: str | None, what: str = "") -> None:
    """Raise if the upfront fee is above the limit, or in another currency. `what` names what is offered."""
    if cap is None:
        return
    fee, currency = Decimal(str(offering["UpfrontFee"])), offering.get("CurrencyCode") or "USD"
    if currency != "USD" or fee > Decimal(cap):
        raise Exception(
            f"{what or 'the Capacity Block ' + offering['CapacityBlockOfferingId']} costs {fee} {currency}, "
            f"all upfront and non-refundable, and {cap} USD are allowed: to buy it, run "
            f"`pulumi config set gpufleet:allowUpfront {fee}` for this stack"
        )


def _soon_and_cheap(offering: Mapping[str, Any]) -> tuple[datetime, Decimal]:
    return offering["StartDate"], Decimal(str(offering["UpfrontFee"]))


def _alternatives(offered: Sequence[Mapping[str, Any]], most: int = 5) -> str:
    if not offered:
        return "AWS offers no other"
    return "AWS offers " + "; ".join(
        f"{_duration(o)} in {o['AvailabilityZone']} from "
        f"{o['StartDate']:%Y-%m-%d %H:%M} UTC for {o['UpfrontFee']} {o.get('CurrencyCode') or 'USD'}"
        for o in sorted(offered, key=_soon_and_cheap)[:most]
    )


def _duration(offering: Mapping[str, Any]) -> str:
    hours, minutes = offering["CapacityBlockDurationHours"], offering.get("CapacityBlockDurationMinutes")
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def _offerings(props: Mapping[str, Any], earliest: datetime, end: datetime | None) -> list[Mapping[str, Any]]:
    ec2 = client(props, "ec2")
    request = {
        "InstanceType": props["instance_type"],
        "InstanceCount": _count(props),
        "CapacityDurationHours": _hours(props),
        "StartDateRange": earliest,
    }
    if end is not None:
        request["EndDateRange"] = end
    found: list[Mapping[str, Any]] = []
    while True:
        page = ec2.describe_capacity_block_offerings(**request)
        found += page["CapacityBlockOfferings"]
        if not page.get("NextToken"):
            return found
        request["NextToken"] = page["NextToken"]


def _count(props: Mapping[str, Any]) -> int:
    # Numbers travel as floating point in Pulumi's protocol.
    return int(props["count"])


def _hours(props: Mapping[str, Any]) -> int:
    return int(props["duration_hours"])
