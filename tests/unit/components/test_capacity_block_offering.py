"""The lookup of a Capacity Block: the chosen offering, once, under a cap."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import boto3
import pytest
from pulumi.dynamic.dynamic import serialize_provider

from gpufleet.components import capacity_block_offering
from gpufleet.components.capacity_block_offering import (
    ASKED,
    STARTED,
    OfferingProvider,
    Window,
    choose,
    refuse_above_cap,
    resolve_start,
)
from gpufleet.verdict.preview import STARTED_BLOCKS

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
PROPS: dict[str, Any] = {
    "instance_type": "p5.48xlarge",
    "count": 2.0,
    "duration_hours": 24.0,
    "start": "in 14 d",
    "zones": ["us-east-1a", "us-east-1b"],
    "region": "us-east-1",
}
STATE: dict[str, Any] = PROPS | {"offering_id": "cb-1", "zone": "us-east-1b"}


def offering(
    id_: str, zone: str, day: int, fee: str, currency: str = "USD", hours: int = 24, minutes: int = 0
) -> dict[str, Any]:
    return {
        "CapacityBlockOfferingId": id_,
        "AvailabilityZone": zone,
        "StartDate": datetime(2030, 1, day, 11, 30, tzinfo=UTC),
        "EndDate": datetime(2030, 1, day + 1, 11, 30, tzinfo=UTC),
        "CapacityBlockDurationHours": hours,
        "CapacityBlockDurationMinutes": minutes,
        "UpfrontFee": fee,
        "CurrencyCode": currency,
    }


class Clock(datetime):
    """A stopped clock."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Clock:  # type: ignore[override]
        """The time of all tests."""
        return cls.fromtimestamp(NOW.timestamp(), tz)


class FakeEc2:
    """Answers DescribeCapacityBlockOfferings in pages and records requests."""

    def __init__(self, *pages: list[dict[str, Any]]) -> None:
        self.pages = pages
        self.asked: list[dict[str, Any]] = []

    def describe_capacity_block_offerings(self, **request: Any) -> dict[str, Any]:
        self.asked.append(request)
        number = int(request.get("NextToken") or 0)
        more = {"NextToken": str(number + 1)} if number + 1 < len(self.pages) else {}
        return {"CapacityBlockOfferings": self.pages[number], **more}


@pytest.fixture
def ec2(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A way to set the offerings that boto3 finds, at `NOW`."""
    monkeypatch.setattr(capacity_block_offering, "datetime", Clock)

    def serve(*pages: list[dict[str, Any]]) -> FakeEc2:
        fake = FakeEc2(*pages)
        monkeypatch.setattr(boto3, "Session", lambda **_: type("S", (), {"client": lambda *_, **__: fake})())
        return fake

    return serve


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("in 14 d", datetime(2030, 1, 15, 12, tzinfo=UTC)),
        ("in 48 h", datetime(2030, 1, 3, 12, tzinfo=UTC)),
        ("in 2 w", datetime(2030, 1, 15, 12, tzinfo=UTC)),
        ("2030-02-01", datetime(2030, 2, 1, tzinfo=UTC)),
        ("2030-02-01T11:30:00+00:00", datetime(2030, 2, 1, 11, 30, tzinfo=UTC)),
    ],
)
def test_start_is_relative_or_a_utc_date(text: str, moment: datetime) -> None:
    assert resolve_start(text, NOW) == moment


def test_invalid_start_is_refused() -> None:
    with pytest.raises(ValueError, match="soon"):
        resolve_start("soon", NOW)


def test_earliest_and_then_cheapest_offering_is_chosen() -> None:
    offered = [
        offering("late-cheap", "us-east-1a", 20, "1"),
        offering("early-dear", "us-east-1a", 16, "900.00"),
        offering("early-cheap", "us-east-1b", 16, "1000e-1"),
    ]
    wanted = Window.of(datetime(2030, 1, 16, tzinfo=UTC), 24)
    found = choose(offered, ["us-east-1a", "us-east-1b"], wanted)
    assert found is not None
    assert found["CapacityBlockOfferingId"] == "early-cheap"


def test_offering_in_another_zone_or_before_the_start_does_not_match() -> None:
    offered = [offering("elsewhere", "us-east-1c", 16, "1"), offering("too-soon", "us-east-1a", 2, "1")]
    assert choose(offered, ["us-east-1a"], Window.of(datetime(2030, 1, 16, tzinfo=UTC), 24)) is None


def test_block_of_another_duration_or_a_later_day_does_not_match() -> None:
    wanted = Window.of(datetime(2030, 1, 16, tzinfo=UTC), 24)
    longer = offering("longer", "us-east-1a", 16, "1", hours=48)
    assert choose([longer, offering("late", "us-east-1a", 18, "1")], ["us-east-1a"], wanted) is None
    next_day = offering("next-day", "us-east-1a", 17, "1")
    assert choose([longer, next_day], ["us-east-1a"], wanted) is next_day


def test_block_that_is_longer_by_minutes_matches_and_a_shorter_one_does_not() -> None:
    wanted = Window.of(datetime(2030, 1, 16, tzinfo=UTC), 24)
    shorter = offering("shorter", "us-east-1a", 16, "1", hours=23, minutes=25)
    longer = offering("longer", "us-east-1a", 16, "1", minutes=35)
    assert choose([shorter, longer], ["us-east-1a"], wanted) is longer


def test_available_offerings_are_listed_and_nothing_is_bought(ec2: Any) -> None:
    fake = ec2(
        [
            offering("cb-1", "us-east-1a", 28, "7.50"),
            offering("cb-2", "us-east-1b", 20, "9", hours=48, minutes=35),
        ]
    )
    with pytest.raises(Exception, match="no Capacity Block of 2 x") as refused:
        OfferingProvider().create(PROPS | {"start": "2030-01-20"})
    assert str(refused.value).endswith(
        "AWS offers 48 h 35 min in us-east-1b from 2030-01-20 11:30 UTC for 9 USD; "
        "24 h in us-east-1a from 2030-01-28 11:30 UTC for 7.50 USD"
    )
    asked, wider = fake.asked
    assert asked["EndDateRange"] - asked["StartDateRange"] == timedelta(hours=36 + 24)
    assert "EndDateRange" not in wider


@pytest.mark.parametrize("start", ["2020-01-01", "2030-01-01", "2030-01-01T11:59:59+00:00"])
def test_start_in_the_past_is_refused_before_any_request(ec2: Any, start: str) -> None:
    fake = ec2([offering("cb-1", "us-east-1a", 2, "1")])
    with pytest.raises(Exception, match="of the Capacity Block has passed"):
        OfferingProvider().create(PROPS | {"start": start})
    assert fake.asked == []


def test_running_block_in_an_emulated_account_is_searched_from_now(
    ec2: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STARTED, "1")
    fake = ec2([offering("cb-1", "us-east-1a", 2, "1")])
    assert OfferingProvider().create(PROPS | {"start": "2029-12-28"}).id == "cb-1"
    assert fake.asked[0]["StartDateRange"] == NOW
    assert STARTED == STARTED_BLOCKS


def test_all_pages_are_read_with_integer_arguments(ec2: Any) -> None:
    far = [offering("far", "us-east-1a", 28, "1")]
    near = [offering("near", "us-east-1a", 27, "1")]
    fake = ec2(far, near)
    created = OfferingProvider().create(PROPS | {"start": "2030-01-27"})
    assert created.id == "near"
    assert len(fake.asked) == 2
    first = fake.asked[0]
    assert (first["InstanceCount"], first["CapacityDurationHours"]) == (2, 24)
    assert all(isinstance(first[key], int) for key in ("InstanceCount", "CapacityDurationHours"))


def test_found_offering_keeps_its_dates_zone_and_exact_fee(ec2: Any) -> None:
    ec2([offering("cb-1", "us-east-1b", 28, "9600.10")])
    outs = OfferingProvider().create(PROPS | {"start": "2030-01-28"}).outs
    assert outs is not None
    assert outs["zone"] == "us-east-1b"
    assert (outs["start_date"], outs["end_date"]) == ("2030-01-28T11:30:00Z", "2030-01-29T11:30:00Z")
    assert outs["upfront_fee"] == "9600.10"
    assert "client" not in outs


def test_message_without_a_matching_offering_repeats_the_request(ec2: Any) -> None:
    ec2([])
    with pytest.raises(
        Exception, match=r"no Capacity Block of 2 x p5.48xlarge for 24 h in us-east-1a, us-east-1b"
    ):
        OfferingProvider().create(PROPS)


def test_fee_above_the_cap_is_refused_before_the_purchase(ec2: Any) -> None:
    ec2([offering("cb-1", "us-east-1a", 28, "9600.10")])
    with pytest.raises(Exception, match=r"costs 9600.10 USD.*non-refundable.*allowUpfront"):
        OfferingProvider().create(PROPS | {"start": "2030-01-28", "max_upfront_usd": "9600"})


def test_fee_at_the_cap_is_paid_and_another_currency_is_refused() -> None:
    refuse_above_cap(offering("cb-1", "us-east-1a", 28, "9600.00"), "9600")
    refuse_above_cap(offering("cb-1", "us-east-1a", 28, "9600.00"), None)
    with pytest.raises(Exception, match="CNY"):
        refuse_above_cap(offering("cb-1", "us-east-1a", 28, "1", "CNY"), "9600")


def test_same_request_is_no_change_in_any_number_format() -> None:
    olds = PROPS | {"offering_id": "cb-1", "count": 2, "duration_hours": 24}
    assert not OfferingProvider().diff("cb-1", olds, PROPS).changes


@pytest.mark.parametrize("ignored", ["client", "max_upfront_usd", "__provider"])
def test_connection_settings_and_the_cap_cause_no_change(ignored: str) -> None:
    assert not OfferingProvider().diff("cb-1", dict(PROPS), PROPS | {ignored: "other"}).changes


@pytest.mark.parametrize("key", ASKED)
def test_changed_request_is_another_block(key: str) -> None:
    changed = OfferingProvider().diff("cb-1", dict(STATE), PROPS | {key: ["other"]})
    assert changed.changes
    assert changed.replaces == [key]


@pytest.mark.parametrize(
    "zones", [["us-east-1b", "us-east-1a"], ["us-east-1b"], ["us-east-1a", "us-east-1b", "us-east-1c"]]
)
def test_paid_block_stays_while_its_zone_is_allowed(zones: list[str]) -> None:
    compared = OfferingProvider().diff("cb-1", dict(STATE), PROPS | {"zones": zones})
    assert not compared.changes
    assert compared.replaces == []


def test_block_outside_the_allowed_zones_is_another_block() -> None:
    assert OfferingProvider().diff("cb-1", dict(STATE), PROPS | {"zones": ["us-east-1a"]}).replaces == [
        "zones"
    ]


def test_later_run_does_not_search_again(ec2: Any) -> None:
    fake = ec2([])
    provider = OfferingProvider()
    state = PROPS | {"offering_id": "cb-1"}
    assert provider.read("cb-1", state).outs == state
    provider.diff("cb-1", state, dict(PROPS))
    provider.delete("cb-1", state)
    assert fake.asked == []


def test_provider_is_stored_by_name_so_a_code_change_is_no_diff() -> None:
    stored = serialize_provider(OfferingProvider())
    assert len(stored) < 200
    import base64

    assert b"gpufleet.components.capacity_block_offering" in base64.b64decode(stored)


def test_module_loads_without_pulumi_aws_and_boto3() -> None:
    """The plugin that runs it imports it on each start."""
    code = (
        "import json, sys; import gpufleet.components.capacity_block_offering;"
        "print(json.dumps([m for m in ('pulumi_aws', 'boto3', 'moto') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
