"""Messages of the queue: notices, and everything else that must be harmless."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest

from gpufleet.notices.events import NodeNotice, UnusableError, read_notice
from tests.unit.notices import events
from tests.unit.notices.events import ACCOUNT, NOW, REGION, instance_id, moment

ONE, TWO = instance_id(1), instance_id(2)
ID = "12345678-1234-1234-1234-123456789012"


def read(body: str) -> NodeNotice:
    return read_notice(body, account=ACCOUNT, region=REGION, now=NOW)


def test_spot_notice_gives_two_minutes() -> None:
    assert read(events.spot(ONE)) == NodeNotice(ID, "spot", (ONE,), NOW, NOW + 120)


def test_rebalance_recommendation_has_no_deadline() -> None:
    assert read(events.rebalance(ONE)) == NodeNotice(ID, "rebalance", (ONE,), NOW, None)


@pytest.mark.parametrize("end", [moment(NOW + 2400), datetime.fromtimestamp(NOW + 2400, UTC).isoformat()])
def test_instances_of_a_block_end_half_an_hour_before_it(end: str) -> None:
    notice = read(events.block_end("cr-0123456789abcdef0", end))
    assert notice == NodeNotice(ID, "capacity", ("cr-0123456789abcdef0",), NOW, NOW + 600)


def test_block_end_without_a_readable_date_gives_the_ten_minutes_of_the_guide() -> None:
    assert read(events.block_end("cr-0123456789abcdef0", "soon")).deadline == NOW + 600


def test_block_end_is_read_by_both_names_of_the_guide() -> None:
    body = json.loads(events.block_end("cr-0123456789abcdef0", moment(NOW + 2400)))
    body["detail-type"] = "Capacity Block Expiration Warning"
    assert read(json.dumps(body)).kind == "capacity"


def test_interrupted_reservation_names_an_instance() -> None:
    body = events.event(
        "EC2 Capacity Reservation Instance Interruption Warning",
        {"instance-id": ONE, "instance-termination-time": moment(NOW + 90)},
    )
    assert read(body) == NodeNotice(ID, "capacity", (ONE,), NOW, NOW + 90)


@pytest.mark.parametrize(
    "starts", [format_datetime(datetime.fromtimestamp(NOW + 86_400, UTC), usegmt=True), moment(NOW + 86_400)]
)
def test_maintenance_names_all_its_instances_and_its_start(starts: str) -> None:
    notice = read(events.maintenance(ONE, TWO, ONE, starts=starts))
    assert notice == NodeNotice(ID, "maintenance", (ONE, TWO), NOW, NOW + 86_400)


def test_closed_maintenance_is_withdrawn() -> None:
    notice = read(events.maintenance(ONE, starts="", status="closed"))
    assert (notice.withdrawn, notice.deadline) == (True, None)


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({"account": "210987654321"}, "foreign"),
        ({"region": "eu-west-1"}, "foreign"),
        ({"source": "my.app"}, "foreign"),
        ({"detail-type": "EC2 Instance State-change Notification"}, "irrelevant"),
        ({"detail": {"instance-id": "i-1; reboot"}}, "malformed"),
        ({"detail": {"instance-id": None}}, "malformed"),
        ({"detail": []}, "malformed"),
        ({"id": ""}, "malformed"),
        ({"id": 7}, "malformed"),
        ({"time": "yesterday"}, "malformed"),
        ({"time": moment(NOW + 3600)}, "malformed"),
    ],
)
def test_other_messages_say_why_they_are_no_notice(change: dict[str, Any], outcome: str) -> None:
    with pytest.raises(UnusableError) as error:
        read(events.spot(ONE, **change))
    assert error.value.outcome == outcome


@pytest.mark.parametrize("body", ["", "{", "[]", "null", "[" * 100_000, '"x"', "x" * 300_000])
def test_no_json_is_malformed(body: str) -> None:
    with pytest.raises(UnusableError) as error:
        read(body)
    assert error.value.outcome == "malformed"


def test_maintenance_of_something_else_is_irrelevant() -> None:
    for body in (
        events.maintenance(starts=moment(NOW)),
        events.maintenance(ONE, starts=moment(NOW)).replace("RETIREMENT_SCHEDULED", "OPERATIONAL_ISSUE"),
    ):
        with pytest.raises(UnusableError) as error:
            read(body)
        assert error.value.outcome == "irrelevant"


ODD: tuple[Any, ...] = (None, True, -1, 1e400, "", "x" * 300, [], [[]], {}, {"instance-id": {}}, "2026-13")


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_any_value_anywhere_is_a_notice_or_unusable(value: Any) -> None:
    for body in (
        events.spot(ONE),
        events.block_end("cr-0123456789abcdef0", moment(NOW)),
        events.maintenance(ONE, starts=moment(NOW)),
    ):
        whole = json.loads(body)
        for place in (whole, whole["detail"]):
            for key in list(place):
                kept, place[key] = place[key], value
                with suppress(UnusableError):
                    read(json.dumps(whole))
                place[key] = kept
