"""A Capacity Block offering, looked up once and kept in the state: a dynamic resource.

Offerings are only valid for minutes and start at real dates, so a look-up on each run would give
each run another answer. Here `create` looks up, `diff` compares what was asked for and nothing
else, and `read` never asks again. The module imports nothing that imports pulumi_aws: the plugin
that runs it would load all of that on each start.
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
"""What decides which block is bought. A change of any of these is another block, except for `zones`
that still hold the one that was bought.
"""

START_WITHIN = timedelta(hours=36)
"""How much later than asked a block may start: blocks begin once a day, so the next day's fits always."""

STARTED = "GPUFLEET_STARTED_BLOCKS"
"""Environment variable, set for an account that is made up: a block whose start is past is looked up as one
that starts now. `gpufleet check` sets it, to judge a fleet with a block that runs."""

_RELATIVE = re.compile(r"^in\s+(\d+)\s*(h|d|w)$")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


class OfferingProvider(ResourceProvider):
    """Looks up an offering on create. Imported by its name, so an edit here changes no resource."""

    serialize_as_secret_always = False

    def create(self, props: dict[str, Any]) -> CreateResult:
        """The earliest, then the cheapest offering that fits; refuses when none does or it costs too much."""
        now = datetime.now(UTC)
        wanted = resolve_start(str(props["start"]), now)
        if wanted < now and os.environ.get(STARTED):
            wanted = now
        if wanted < now:
            raise Exception(
                f"the start {props['start']} of the Capacity Block has passed, and blocks are sold before "
                "they start: ask for a later one, or take its node group out of the fleet file if the "
                "block has had its time"
            )
        window = Window.of(wanted, _hours(props))
        found = choose(_offerings(props, window.earliest, window.end), props["zones"], window)
        if found is None:
            offered = _offerings(props, window.earliest, None)
            raise Exception(
                f"no Capacity Block of {_count(props)} x {props['instance_type']} for "
                f"{window.hours} h in {', '.join(props['zones'])} starts from "
                f"{window.earliest:%Y-%m-%d %H:%M} to {window.latest:%Y-%m-%d %H:%M} UTC: ask for another "
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
        """Only what was asked for counts; where the client connects and what may be paid do not."""
        different = changed(_olds, _news, ASKED)
        # More zones, fewer or another order: the paid block stays while its own zone is among them.
        if "zones" in different and _olds.get("zone") in _news["zones"]:
            different.remove("zones")
        return DiffResult(
            changes=bool(different), replaces=different, stables=[], delete_before_replace=False
        )

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """What the state says: an offering is gone from AWS as soon as it is bought."""
        return ReadResult(id_, props)

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Never asked for: every change that counts is a replacement."""
        return UpdateResult(_olds)

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Nothing to delete: an offering is an answer and no resource."""


class CapacityBlockOffering(Resource, module="capacity", name="CapacityBlockOffering"):
    """The offering that was found. Dates are ISO 8601 in UTC, the fee is an exact decimal."""

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
    """The moment that `in 14 d`, `in 48 h` or an ISO 8601 date means. Raises ValueError for other text."""
    relative = _RELATIVE.match(text.strip())
    if relative:
        return now + timedelta(**{_UNITS[relative[2]]: int(relative[1])})
    moment = datetime.fromisoformat(text.strip())
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Window:
    """Which blocks fit: they last exactly `hours` and start from `earliest` to `latest`."""

    earliest: datetime
    latest: datetime
    hours: int

    @classmethod
    def of(cls, wanted: datetime, hours: int) -> Window:
        """The window of a block that is wanted at a moment."""
        return cls(wanted, wanted + START_WITHIN, hours)

    @property
    def end(self) -> datetime:
        """When the latest of them has ended."""
        return self.latest + timedelta(hours=self.hours)

    def holds(self, offering: Mapping[str, Any]) -> bool:
        """Whether the offering fits. AWS answers with blocks of other durations, too."""
        return (
            self.earliest <= offering["StartDate"] <= self.latest
            and int(offering["CapacityBlockDurationHours"]) == self.hours
        )


def choose(
    offerings: Sequence[Mapping[str, Any]], zones: Sequence[str], window: Window
) -> Mapping[str, Any] | None:
    """The offering that starts first in one of the zones and in the window; the cheapest of equals."""
    fitting = [o for o in offerings if o["AvailabilityZone"] in zones and window.holds(o)]
    return min(fitting, key=_soon_and_cheap, default=None)


def refuse_above_cap(offering: Mapping[str, Any], cap: str | None) -> None:
    """Raises when the upfront fee is above the cap, or not in the cap's currency."""
    if cap is None:
        return
    fee, currency = Decimal(str(offering["UpfrontFee"])), offering.get("CurrencyCode") or "USD"
    if currency != "USD" or fee > Decimal(cap):
        raise Exception(
            f"the Capacity Block {offering['CapacityBlockOfferingId']} costs {fee} {currency}, all upfront "
            f"and non-refundable, and {cap} USD are allowed: to buy it, run "
            f"`pulumi config set gpufleet:allowUpfront {fee}` for this stack"
        )


def _soon_and_cheap(offering: Mapping[str, Any]) -> tuple[datetime, Decimal]:
    return offering["StartDate"], Decimal(str(offering["UpfrontFee"]))


def _alternatives(offered: Sequence[Mapping[str, Any]], most: int = 5) -> str:
    if not offered:
        return "AWS offers no other"
    return "AWS offers " + "; ".join(
        f"{o['CapacityBlockDurationHours']} h in {o['AvailabilityZone']} from "
        f"{o['StartDate']:%Y-%m-%d %H:%M} UTC for {o['UpfrontFee']} {o.get('CurrencyCode') or 'USD'}"
        for o in sorted(offered, key=_soon_and_cheap)[:most]
    )


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
