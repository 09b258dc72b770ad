"""Start and stop of a Capacity Block's nodes, and that a completed action is not drift."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from moto import mock_aws

from gpufleet.components.capacity_block_schedule import ASKED, SOONEST, ScheduleProvider, plan_actions

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
PROPS: dict[str, Any] = {
    "group_name": "eks-pretrain",
    "reservation_id": "cr-1",
    "nodes": 8.0,
    "region": "us-east-1",
    "client": {},
}


@pytest.fixture
def scaling(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "testing")
    for key in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(key, raising=False)
    with mock_aws():
        yield boto3.client("autoscaling", region_name="us-east-1")


@pytest.fixture
def block(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that runs from tomorrow for a day, on any date."""
    start = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    monkeypatch.setattr(
        "gpufleet.components.capacity_block_schedule._window", lambda _: (start, start + timedelta(days=1))
    )


def test_nodes_start_with_the_block_and_stop_45_minutes_before_its_end() -> None:
    start, end = NOW + timedelta(days=1), NOW + timedelta(days=2)
    assert plan_actions(start, end, 8, NOW) == {
        "start": (start, 8),
        "stop": (end - timedelta(minutes=45), 0),
    }


def test_running_block_starts_its_nodes_at_once() -> None:
    actions = plan_actions(NOW - timedelta(hours=1), NOW + timedelta(days=1), 8, NOW)
    assert actions["start"] == (NOW + SOONEST, 8)


@pytest.mark.parametrize("left", [timedelta(0), timedelta(minutes=30), timedelta(days=-700)])
def test_expired_or_ending_block_starts_no_nodes(left: timedelta) -> None:
    assert plan_actions(NOW - timedelta(days=1), NOW + left, 8, NOW) == {}


@pytest.mark.usefixtures("block")
def test_actions_are_created_and_deleted_with_the_resource(scaling: Any) -> None:
    provider = ScheduleProvider()
    made = provider.create(PROPS)
    put = scaling.describe_scheduled_actions()["ScheduledUpdateGroupActions"]
    assert {a["ScheduledActionName"]: a["DesiredCapacity"] for a in put} == {"cr-1-start": 8, "cr-1-stop": 0}
    assert all(a["MaxSize"] == 8 for a in put)
    scaling.delete_scheduled_action(AutoScalingGroupName="eks-pretrain", ScheduledActionName="cr-1-start")
    provider.delete(made.id, made.outs or {})
    assert scaling.describe_scheduled_actions()["ScheduledUpdateGroupActions"] == []


@pytest.mark.usefixtures("block", "scaling")
def test_completed_actions_are_neither_drift_nor_repeated() -> None:
    provider = ScheduleProvider()
    made = provider.create(PROPS)
    state = made.outs or {}
    assert provider.read(made.id, state).outs == state
    assert not provider.diff(made.id, state, PROPS).changes


def test_extended_block_stops_its_nodes_later_and_starts_none_again(
    scaling: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=5)
    window = [start, start + timedelta(days=1)]
    monkeypatch.setattr("gpufleet.components.capacity_block_schedule._window", lambda _: tuple(window))
    provider = ScheduleProvider()
    before = PROPS | {"extended_to": "2030-01-02T11:30:00Z"}
    old = provider.create(PROPS).outs or {}
    found = provider.diff("x", old, before)
    assert found.changes
    assert found.replaces == []
    # Auto Scaling deletes an action that has run.
    scaling.delete_scheduled_action(AutoScalingGroupName="eks-pretrain", ScheduledActionName="cr-1-start")
    window[1] += timedelta(days=7)
    state = provider.update("x", old, before).outs or {}
    (action,) = scaling.describe_scheduled_actions()["ScheduledUpdateGroupActions"]
    assert action["ScheduledActionName"] == "cr-1-stop"
    assert action["StartTime"] == window[1] - timedelta(minutes=45)
    assert datetime.fromisoformat(state["end_date"]) == window[1]
    assert not provider.diff("x", state, before).changes


@pytest.mark.parametrize("key", ASKED)
def test_changed_group_block_or_size_replaces_the_actions(key: str) -> None:
    changed = ScheduleProvider().diff("x", dict(PROPS), PROPS | {key: "other"})
    assert changed.replaces == [key]
    assert changed.delete_before_replace


def test_connection_settings_cause_no_change() -> None:
    assert not ScheduleProvider().diff("x", dict(PROPS), PROPS | {"client": {"endpoint_url": "x"}}).changes


def test_missing_emulated_aws_has_no_actions_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    client = {
        "endpoint_url": "http://127.0.0.1:9",
        "aws_access_key_id": "x",
        "aws_secret_access_key": "y",
    }
    ScheduleProvider().delete("x", PROPS | {"client": client, "actions": ["start"]})
