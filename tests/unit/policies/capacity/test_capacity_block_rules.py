"""A Capacity Block has no placement group, and its nodes run inside its dates."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    BLOCK_OFFERING,
    BLOCK_SCHEDULE,
    CAPACITY_BLOCK,
    INSTANCE,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    PLACEMENT_GROUP,
    SCHEDULE,
)

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]
PLACEMENT = "capacity-block-no-placement-group"
DATES = "capacity-block-within-dates"
START, END = "2031-05-01T11:30:00Z", "2031-05-08T11:30:00Z"


def block(**more: Any) -> Described:
    props = {"instanceType": "p5.48xlarge", "instanceCount": 2, "startDate": START, "endDate": END}
    return {"type": CAPACITY_BLOCK, "name": "block", "props": {**props, **more}}


def template(**more: Any) -> Described:
    spec = {"capacityReservationTarget": {"capacityReservationId": UNKNOWN}}
    return {
        "type": LAUNCH_TEMPLATE,
        "name": "template",
        "props": {"instanceType": "p5.48xlarge", "capacityReservationSpecification": spec, **more},
        "depends": {"capacityReservationSpecification": ["block"]},
    }


def nodes(minimum: Any = 0, desired: Any = 0, **more: Any) -> Described:
    props = {"name": "pretrain", "minSize": minimum, "desiredCapacity": desired, "maxSize": 2}
    return {
        "type": AUTO_SCALING_GROUP,
        "name": "nodes",
        "props": {**props, "launchTemplate": {"id": UNKNOWN, "version": UNKNOWN}, **more},
        "depends": {"launchTemplate": ["template"]},
    }


def action(name: str, moment: Any, size: int, **more: Any) -> Described:
    props = {"autoscalingGroupName": "pretrain", "startTime": moment, "desiredCapacity": size, "maxSize": 2}
    return {"type": SCHEDULE, "name": name, "props": {**props, **more}}


def hidden(resource: Described, **props: Any) -> Described:
    return {**resource, "props": {**resource["props"], **props}}


@pytest.mark.parametrize(
    "resources",
    [
        (block(), template(placement={"groupName": "close"}), nodes()),
        (block(), template(placement={"groupName": UNKNOWN}), nodes()),
        (block(), template(placement={"groupId": "pg-1"}), nodes()),
        (block(), template(), nodes(placementGroup="close")),
        (template(instanceMarketOptions={"marketType": "capacity-block"}, placement={"groupName": "x"}),),
        (
            block(id="cr-1"),
            {
                "type": INSTANCE,
                "name": "node",
                "props": {
                    "instanceType": "p5.48xlarge",
                    "placementGroup": "close",
                    "capacityReservationSpecification": {
                        "capacityReservationTarget": {"capacityReservationId": "cr-1"}
                    },
                },
            },
        ),
    ],
)
def test_capacity_block_never_gets_a_placement_group(resources: tuple[Described, ...], ask: Ask) -> None:
    described = [
        {**each, "depends": {}} if each["name"] == "template" and len(resources) == 1 else each
        for each in resources
    ]
    (found,) = ask(PLACEMENT, *described)
    assert "placement" in found.violation.prop


def test_eks_group_of_the_capacity_block_market_counts_by_itself(ask: Ask) -> None:
    silent = {"type": LAUNCH_TEMPLATE, "name": "template", "props": {"placement": {"groupName": "close"}}}
    group = {
        "type": NODE_GROUP,
        "name": "nodes",
        "props": {"capacityType": "CAPACITY_BLOCK", "launchTemplate": {"id": UNKNOWN}},
        "depends": {"launchTemplate": ["template"]},
    }
    assert len(ask(PLACEMENT, silent, group)) == 1
    assert ask(PLACEMENT, silent, hidden(group, capacityType="ON_DEMAND")) == []


def test_template_outside_the_stack_fails_closed(ask: Ask) -> None:
    group = {
        "type": NODE_GROUP,
        "props": {"capacityType": "CAPACITY_BLOCK", "launchTemplate": {"id": "lt-elsewhere", "version": "1"}},
    }
    (found,) = ask(PLACEMENT, group)
    assert found.violation.unknown


def test_placement_group_of_other_nodes_is_ignored(ask: Ask) -> None:
    group = {"type": PLACEMENT_GROUP, "name": "close", "props": {"strategy": "cluster"}}
    other = {**template(placement={"groupName": "close"}), "name": "other", "depends": {}}
    del other["props"]["capacityReservationSpecification"]
    assert ask(PLACEMENT, group, other, block(), template(), nodes()) == []


def test_nodes_that_start_and_stop_with_the_block_pass(ask: Ask) -> None:
    inside = [action("start", START, 2), action("stop", "2031-05-08T11:00:00Z", 0)]
    assert ask(DATES, block(), template(), nodes(), *inside) == []


@pytest.mark.parametrize(
    ("described", "prop"),
    [
        (nodes(minimum=1, desired=1), "minSize"),
        (nodes(desired=1), "desiredCapacity"),
        (nodes(minimum=UNKNOWN), "minSize"),
    ],
)
def test_nodes_running_before_the_block_starts_are_found(described: Described, prop: str, ask: Ask) -> None:
    found = ask(DATES, block(), template(), described)
    assert prop in [each.violation.prop for each in found]


def test_nodes_may_run_while_the_block_runs(ask: Ask) -> None:
    inside = dt.datetime(2031, 5, 3, tzinfo=dt.UTC)
    assert ask(DATES, block(), template(), nodes(2, 2), now=inside) == []
    after = dt.datetime(2031, 5, 9, tzinfo=dt.UTC)
    assert len(ask(DATES, block(), template(), nodes(2, 2), now=after)) == 2


@pytest.mark.parametrize(
    "actions",
    [
        [action("early", "2031-05-01T11:00:00Z", 2), action("stop", "2031-05-08T11:00:00Z", 0)],
        [action("late", "2031-05-08T11:15:00Z", 2)],
        [action("start", START, 2)],
        [action("start", START, 2), action("stop", "2031-05-08T11:15:00Z", 0)],
        [action("start", UNKNOWN, 2), action("stop", "2031-05-08T11:00:00Z", 0)],
        [action("daily", START, 0, recurrence="0 8 * * *")],
    ],
)
def test_scheduled_action_outside_the_dates_or_without_an_end_is_found(
    actions: list[Described], ask: Ask
) -> None:
    (found,) = ask(DATES, block(), template(), nodes(), *actions)
    assert found.violation.prop in ("startTime", "recurrence")


def test_fixed_date_is_not_compared_with_a_block_that_is_not_bought_yet(ask: Ask) -> None:
    unbought = block(startDate=UNKNOWN, endDate=UNKNOWN)
    found = ask(DATES, unbought, template(), nodes(), action("start", START, 2))
    assert [each.violation.unknown for each in found] == [True]
    (standing,) = ask(DATES, unbought, template(), nodes(desired=1))
    assert standing.violation.unknown


def schedule(count: int, held: str = "block") -> Described:
    return {
        "type": BLOCK_SCHEDULE,
        "name": "schedule",
        "props": {"nodes": count, "group_name": UNKNOWN, "reservation_id": UNKNOWN},
        "depends": {"group_name": ["nodes"], "reservation_id": [held]},
    }


def test_schedule_of_the_fleet_follows_the_block_of_its_group(ask: Ask) -> None:
    assert ask(DATES, block(), template(), nodes(), schedule(2)) == []
    other = {**block(), "name": "other"}
    (found,) = ask(DATES, block(), other, template(), nodes(), schedule(2, "other"))
    assert found.violation.prop == "reservation_id"


def test_schedule_with_more_nodes_than_the_block_is_found(ask: Ask) -> None:
    (found,) = ask(DATES, block(), template(), nodes(), schedule(3))
    assert found.violation.prop == "nodes"
    offering = {"type": BLOCK_OFFERING, "name": "offering", "props": {"count": 2}}
    unbought = {
        **block(instanceCount=UNKNOWN, startDate=UNKNOWN, endDate=UNKNOWN),
        "depends": {"capacityBlockOfferingId": ["offering"]},
    }
    (found,) = ask(DATES, offering, unbought, template(), nodes(), schedule(3))
    assert found.violation.prop == "nodes"


def test_group_without_a_block_is_ignored(ask: Ask) -> None:
    plain = {**nodes(2, 2), "depends": {}}
    del plain["props"]["launchTemplate"]
    assert ask(DATES, plain, action("daily", START, 2, recurrence="0 8 * * *")) == []
