"""Capacity Blocks."""

from __future__ import annotations

import copy
import datetime as dt
from typing import Any

import pytest
from msgspec import structs

from gpufleet.checks.rules import BoughtBlock, nothing_bought
from tests.unit.checks.fleets import FLEET, GONE, NOW, Judge

GROUP = "cloud.0.node_groups.1"
BLOCK = f"{GROUP}.capacity.reserved.capacity_block"
FIELD = "cloud[0].node_groups[1].capacity.reserved.capacity_block"


@pytest.mark.parametrize("duration", ["1 d", "14 d", "21 d", "182 d", "26 w", "24 h"])
def test_lengths_that_aws_sells_pass(judge: Judge, duration: str) -> None:
    reported = judge({f"{BLOCK}.duration": duration, "budget.upfront": "900000 USD"})
    assert reported.rules == set()


@pytest.mark.parametrize(
    ("duration", "remedy"),
    [
        ("183 d", "'182 d' or less"),
        ("4369 h", "'182 d' or less"),
        ("176 d", "'175 d' or '182 d'"),
        ("15 d", "'14 d' or '21 d'"),
        ("20 d", "'14 d' or '21 d'"),
        ("36 h", "'1 d' or '2 d'"),
        ("6 h", "'1 d'"),
    ],
)
def test_durations_not_sold_by_aws_are_refused_with_the_nearest(
    judge: Judge, duration: str, remedy: str
) -> None:
    finding = judge({f"{BLOCK}.duration": duration}).only("capacity-block-duration")
    assert finding.field == f"{FIELD}.duration"
    assert finding.value == duration
    assert finding.remedy == f"write {remedy}"


def test_block_to_be_bought_needs_a_duration_and_a_start(judge: Judge) -> None:
    judge({f"{BLOCK}.duration": GONE}).only("capacity-block-duration")
    judge({f"{BLOCK}.start": GONE}).only("capacity-block-start")
    started = {f"{BLOCK}.duration": GONE, f"{BLOCK}.start": STARTED.isoformat()}
    for bought in (nothing_bought, lambda: [_bought()]):
        found = judge(started, bought=bought)
        assert found.rules == {"capacity-block-duration", "capacity-block-start"}


def test_block_of_more_than_64_instances_is_refused(judge: Judge) -> None:
    finding = judge({f"{BLOCK}.nodes": 65}).only("capacity-block-size")
    assert finding.value == "65"
    assert "64" in finding.remedy
    assert judge({f"{BLOCK}.nodes": 64, "budget.upfront": "900000 USD"}).rules <= {"budget-exceeded"}


def test_blocks_of_more_than_256_instances_in_total_are_refused(judge: Judge) -> None:
    changes: dict[str, Any] = {f"{BLOCK}.nodes": 64}
    groups = copy.deepcopy(FLEET["cloud"][0]["node_groups"])
    for number in range(3, 6):
        block = copy.deepcopy(groups[1]) | {"name": f"block{number}"}
        block["capacity"]["reserved"]["capacity_block"]["nodes"] = 64
        groups.append(block)
    reported = judge({"cloud.0.node_groups": groups} | changes | {"budget.upfront": "9000000 USD"})
    assert "capacity-block-size" not in reported.rules
    groups[-1]["capacity"]["reserved"]["capacity_block"]["nodes"] = 64
    extra = copy.deepcopy(groups[-1]) | {"name": "straw"}
    extra["capacity"]["reserved"]["capacity_block"]["nodes"] = 1
    reported = judge({"cloud.0.node_groups": [*groups, extra]} | changes)
    finding = reported.only("capacity-block-size")
    assert "257" in finding.message
    assert finding.field.startswith("cloud[0].node_groups[7]")


@pytest.mark.parametrize(
    ("field", "value", "than"),
    [
        ("min", 0, "fewer than you pay for"),
        ("max", 2, "more than it holds"),
        ("min", 2, "more than it holds"),
        ("max", 0, "fewer than you pay for"),
    ],
)
def test_min_or_max_other_than_the_block_size_is_refused(
    judge: Judge, field: str, value: int, than: str
) -> None:
    finding = judge({f"{BLOCK}.{field}": value}).only("capacity-block-all-or-none")
    assert finding.field == f"{FIELD}.{field}"
    assert finding.value == str(value)
    assert than in finding.message


def test_min_and_max_equal_to_the_block_size_pass(judge: Judge) -> None:
    assert judge({f"{BLOCK}.min": 1, f"{BLOCK}.max": 1}).rules == set()


@pytest.mark.parametrize("start", ["in 57 d", "in 9 w", (NOW + dt.timedelta(days=60)).date().isoformat()])
def test_start_more_than_eight_weeks_ahead_is_refused(judge: Judge, start: str) -> None:
    finding = judge({f"{BLOCK}.start": start}).only("capacity-block-start")
    assert "'in 56 d'" in finding.remedy


@pytest.mark.parametrize(
    "start", ["in 56 d", "in 1 d", (NOW + dt.timedelta(days=50)).date().isoformat(), NOW.isoformat()]
)
def test_start_within_eight_weeks_passes(judge: Judge, start: str) -> None:
    assert judge({f"{BLOCK}.start": start}).rules == set()


@pytest.mark.parametrize("days", [8, 30, 900])
def test_block_in_the_past_is_refused(judge: Judge, days: int) -> None:
    start = (NOW - dt.timedelta(days=days)).date().isoformat()
    finding = judge({f"{BLOCK}.start": start}).only("capacity-block-start")
    assert finding.value == start
    assert "is over" in finding.message
    assert "remove the node group" in finding.remedy


STARTED = NOW - dt.timedelta(days=3)


def _bought(**changes: Any) -> BoughtBlock:
    block = BoughtBlock(
        name="atlas-test-use1-block",
        start=STARTED.date().isoformat(),
        nodes=1,
        duration=dt.timedelta(days=7),
        instance_type="p5.48xlarge",
    )
    return structs.replace(block, **changes)


@pytest.mark.parametrize("ago", [dt.timedelta(minutes=1), dt.timedelta(hours=20), dt.timedelta(days=3)])
def test_started_block_that_is_not_bought_is_refused(judge: Judge, ago: dt.timedelta) -> None:
    start = (NOW - ago).isoformat()
    finding = judge({f"{BLOCK}.start": start}).only("capacity-block-start")
    assert finding.field == f"{FIELD}.start"
    assert finding.value == start
    assert "starts in the past" in finding.message
    assert "write 'in 1 d', or '" in finding.remedy
    assert "`id`" in finding.remedy


@pytest.mark.parametrize(
    ("now", "next_day"),
    [
        ("2031-01-05T11:29:00+00:00", "'2031-01-05T11:30Z'"),
        ("2031-01-05T11:30:00+00:00", "'2031-01-06T11:30Z'"),
        ("2031-01-31T23:00:00+00:00", "'2031-02-01T11:30Z'"),
    ],
)
def test_remedy_names_the_start_of_the_next_block_day(judge: Judge, now: str, next_day: str) -> None:
    reported = judge({f"{BLOCK}.start": "2031-01-01"}, now=dt.datetime.fromisoformat(now))
    assert next_day in reported.of("capacity-block-start")[0].remedy


def test_running_bought_block_passes(judge: Judge) -> None:
    changes = {f"{BLOCK}.start": STARTED.date().isoformat()}
    assert judge(changes, bought=lambda: [_bought()]).rules == set()
    assert judge(changes, bought=lambda: [_bought(end=NOW + dt.timedelta(minutes=1))]).rules == set()


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "atlas-test-use1-train"},
        {"start": "2020-01-01"},
        {"nodes": 2},
        {"duration": dt.timedelta(days=8)},
        {"instance_type": "p5e.48xlarge"},
    ],
)
def test_another_bought_block_does_not_count(judge: Judge, changes: dict[str, Any]) -> None:
    reported = judge({f"{BLOCK}.start": STARTED.date().isoformat()}, bought=lambda: [_bought(**changes)])
    assert "starts in the past" in reported.only("capacity-block-start").message


def test_bought_block_expires_at_its_own_end(judge: Judge) -> None:
    reported = judge({f"{BLOCK}.start": STARTED.date().isoformat()}, bought=lambda: [_bought(end=NOW)])
    assert "is over" in reported.only("capacity-block-start").message


def test_start_in_the_past_is_a_warning_if_nothing_is_bought(judge: Judge) -> None:
    changes = {f"{BLOCK}.start": STARTED.date().isoformat()}
    judge(changes, bought=None).only("capacity-block-start", "warning")


def test_state_is_not_read_for_blocks_in_the_future(judge: Judge) -> None:
    def read() -> list[BoughtBlock]:
        raise AssertionError("a state was read")

    later = NOW + dt.timedelta(days=14)
    assert judge({f"{BLOCK}.start": later.isoformat()}, bought=read).rules == set()


def test_type_not_sold_in_blocks_is_refused(judge: Judge) -> None:
    reported = judge({f"{GROUP}.instance_types": ["g6.8xlarge"]})
    finding = reported.only("capacity-block-type")
    assert finding.field == "cloud[0].node_groups[1].instance_types[0]"
    assert "p5.48xlarge" in finding.remedy


def test_block_with_several_types_is_refused(judge: Judge) -> None:
    reported = judge({f"{GROUP}.instance_types": ["p4d.24xlarge", "p4de.24xlarge"]})
    finding = reported.only("capacity-block-type")
    assert "[p4d.24xlarge]" in finding.remedy


def _existing(**more: Any) -> dict[str, Any]:
    return {BLOCK: {"nodes": 1, "id": "cr-0123456789abcdef0", "duration": "7 d", **more}}


def test_existing_block_in_a_known_zone_passes(judge: Judge) -> None:
    assert judge(_existing(zone="us-east-1a", instance_type="p5.48xlarge")).rules == set()


def test_existing_block_needs_neither_a_duration_nor_a_zone_in_a_group_of_one_zone(judge: Judge) -> None:
    block = {BLOCK: {"nodes": 1, "id": "cr-0123456789abcdef0"}}
    assert judge(block | {f"{GROUP}.zones": ["us-east-1a"]}).rules == set()
    extended = {f"{BLOCK}.extensions": ["7 d"], f"{GROUP}.zones": ["us-east-1a"]}
    assert judge(block | extended).rules == set()


def test_existing_block_of_another_type_is_refused(judge: Judge) -> None:
    finding = judge(_existing(zone="us-east-1a", instance_type="p4d.24xlarge")).only("capacity-block-type")
    assert finding.field == f"{FIELD}.instance_type"
    assert "p4d.24xlarge" in finding.remedy


def test_existing_block_must_name_one_of_several_zones(judge: Judge) -> None:
    finding = judge(_existing()).only("capacity-block-zone")
    assert "zone: us-east-1a" in finding.remedy


def test_existing_block_in_another_zone_is_refused(judge: Judge) -> None:
    judge(_existing(zone="us-east-1c")).only("zone-in-site")


def test_existing_block_smaller_than_its_group_is_refused(judge: Judge) -> None:
    finding = judge(_existing(zone="us-east-1a", max=4)).only("capacity-block-all-or-none")
    assert "more than it holds" in finding.message


def test_start_of_an_existing_block_is_a_warning(judge: Judge) -> None:
    judge(_existing(zone="us-east-1a", start="in 3 d")).only("capacity-block-start", "warning")


def test_upfront_payment_above_the_cap_is_a_warning(judge: Judge) -> None:
    finding = judge({f"{BLOCK}.nodes": 64}).of("budget-exceeded")[-1]
    assert finding.field == "budget.upfront"
    assert finding.severity == "warning"


def held_until(end: dt.datetime, start: str = "in 14 d") -> BoughtBlock:
    """The block of the fleet, which ends at a time."""
    return BoughtBlock("atlas-test-use1-block", start, 1, dt.timedelta(days=7), "p5.48xlarge", end)


def test_block_that_ends_soon_is_a_warning_with_what_to_write(judge: Judge) -> None:
    end = NOW + dt.timedelta(days=2)
    finding = judge(bought=lambda: (held_until(end),)).only("capacity-block-ends", "warning")
    assert finding.field == f"{FIELD}.extensions"
    assert f"ends at {end:%Y-%m-%d %H:%M} UTC" in finding.message
    assert "append an entry such as 7 d to `extensions`" in finding.remedy
    assert f"until {end - dt.timedelta(hours=1):%Y-%m-%d %H:%M} UTC" in finding.remedy
    assert finding.value == "none"
    extended = {f"{BLOCK}.extensions": ["1 d", "2 d"]}
    assert judge(extended, bought=lambda: (held_until(end),)).of("capacity-block-ends")[0].value == "1 d, 2 d"


@pytest.mark.parametrize("start", [STARTED, NOW])
def test_block_that_has_started_is_reminded_of(judge: Judge, start: dt.datetime) -> None:
    bought = held_until(NOW + dt.timedelta(days=2), start.isoformat())
    reported = judge({f"{BLOCK}.start": start.isoformat()}, bought=lambda: (bought,))
    reported.only("capacity-block-ends", "warning")


@pytest.mark.parametrize(
    ("left", "remind", "found"),
    [
        (dt.timedelta(days=3), None, True),
        (dt.timedelta(days=3, minutes=1), None, False),
        (dt.timedelta(days=10), "14 d", True),
        (dt.timedelta(hours=7), "6 h", False),
        (dt.timedelta(hours=1), None, True),
        (dt.timedelta(minutes=59), None, False),
    ],
)
def test_reminder_comes_as_early_as_it_is_asked_and_while_an_extension_can_be_bought(
    judge: Judge, left: dt.timedelta, remind: str | None, found: bool
) -> None:
    changes = {} if remind is None else {f"{BLOCK}.remind_before": remind}
    reported = judge(changes, bought=lambda: (held_until(NOW + left),))
    assert bool(reported.of("capacity-block-ends")) is found


def test_block_that_is_not_bought_has_no_end_to_remind_of(judge: Judge) -> None:
    assert judge().rules == set()


@pytest.mark.parametrize("extension", ["15 d", "36 h", "183 d", "6 h"])
def test_extensions_not_sold_by_aws_are_refused(judge: Judge, extension: str) -> None:
    reported = judge({f"{BLOCK}.extensions": ["1 d", extension], "budget.upfront": "9000000 USD"})
    (finding,) = [each for each in reported.of("capacity-block-extension") if each.severity == "error"]
    assert finding.field == f"{FIELD}.extensions[1]"
    assert finding.value == extension


def test_extension_right_after_the_purchase_passes_if_the_end_is_near(judge: Judge) -> None:
    near = {f"{BLOCK}.extensions": ["7 d"], "budget.upfront": "900000 USD"}
    assert judge(near).rules == set()
    assert judge({**near, f"{BLOCK}.start": "in 49 d"}).rules == set()
    far = {**near, f"{BLOCK}.start": "in 50 d"}
    finding = judge(far).only("capacity-block-extension")
    assert "from 56 d before their end" in finding.message
    # It is bought, and its end is known.
    bought = held_until(NOW + dt.timedelta(days=40), "in 50 d")
    assert judge(far, bought=lambda: (bought,)).rules == set()


def test_first_extension_counts_for_the_second(judge: Judge) -> None:
    changes = {f"{BLOCK}.extensions": ["14 d", "35 d"], "budget.upfront": "9000000 USD"}
    assert judge(changes).rules == set()
    changes[f"{BLOCK}.extensions"] = ["42 d", "14 d"]
    assert judge(changes).fields("capacity-block-extension") == [f"{FIELD}.extensions"]


def test_block_and_extensions_longer_than_aws_documents_are_a_warning(judge: Judge) -> None:
    existing = {"nodes": 1, "id": "cr-0123456789abcdef0", "zone": "us-east-1a", "duration": "182 d"}
    changes = {BLOCK: {**existing, "extensions": ["7 d"]}, "budget.upfront": "9000000 USD"}
    reported = judge(changes)
    (finding,) = reported.of("capacity-block-extension")
    assert (finding.severity, finding.field) == ("warning", f"{FIELD}.extensions")
    assert "last 189 d, and AWS documents 182 d in total" in finding.message
    changes[f"{BLOCK}.duration"] = "175 d"
    assert judge(changes).of("capacity-block-extension") == []
