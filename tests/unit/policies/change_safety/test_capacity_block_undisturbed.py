"""capacity-block-undisturbed: nodes in a running block, by the clock of the run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    BLOCK_EXTENSION,
    BLOCK_OFFERING,
    BLOCK_SCHEDULE,
    CAPACITY_BLOCK,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    SCHEDULE,
)
from gpufleet.spec.policy import Exemption

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]
RULE = "capacity-block-undisturbed"
START, END = "2026-11-20T11:30:00Z", "2026-11-27T11:30:00Z"
BLOCK_ID = "cr-0123456789abcdef0"
TAGS = {"gpufleet:site": "use1", "gpufleet:node-group": "pretrain"}
VERDICT = {"config": {"gpufleet:cloud": "sandbox", "gpufleet:protect": "true"}}


def at(text: str) -> dict[str, dt.datetime]:
    return {"now": dt.datetime.fromisoformat(text.replace("Z", "+00:00"))}


def block(start: Any = START, end: Any = END, **more: Any) -> Described:
    props = {"id": BLOCK_ID, "startDate": start, "endDate": end, **more}
    return {
        "type": CAPACITY_BLOCK,
        "name": "block",
        "props": {key: value for key, value in props.items() if value is not None},
        "depends": {"capacityBlockOfferingId": ["offering"]},
    }


def offering(**more: Any) -> Described:
    return {"type": BLOCK_OFFERING, "name": "offering", "props": {"count": 8, **more}}


def template(reservation: str = BLOCK_ID, **more: Any) -> Described:
    target = {"capacityReservationTarget": {"capacityReservationId": reservation}}
    props = {
        "capacityReservationSpecification": target,
        "instanceMarketOptions": {"marketType": "capacity-block"},
    }
    return {"type": LAUNCH_TEMPLATE, "name": "template", "props": {**props, **more}}


def eks(size: int = 8, **more: Any) -> Described:
    props = {
        "tags": TAGS,
        "capacityType": "CAPACITY_BLOCK",
        "scalingConfig": {"minSize": 0, "maxSize": size, "desiredSize": 0},
        "launchTemplate": {"id": UNKNOWN, "version": UNKNOWN},
        **more,
    }
    return {"type": NODE_GROUP, "name": "nodes", "props": props, "depends": {"launchTemplate": ["template"]}}


def group(size: int = 8, **more: Any) -> Described:
    props = {
        "name": "nodes-1",
        "tags": [{"key": key, "value": value} for key, value in TAGS.items()],
        "minSize": 0,
        "maxSize": size,
        "desiredCapacity": 8,
        "vpcZoneIdentifiers": ["subnet-1"],
        "launchTemplate": {"id": UNKNOWN},
        **more,
    }
    return {
        "type": AUTO_SCALING_GROUP,
        "name": "nodes",
        "props": props,
        "depends": {"launchTemplate": ["template"]},
    }


def stack(*nodes: Described, **more: Any) -> list[Described]:
    return [offering(), block(**more), template(userData="1"), *nodes]


@pytest.mark.parametrize(
    ("change", "how"),
    [
        ([template(userData="2"), eks()], "userData of its launch template"),
        ([template(userData="1"), eks(version="1.36")], "replaces its nodes (by version)"),
        ([template(userData="1"), eks(__replace=["subnetIds"])], "replaces it (by subnetIds)"),
        ([template(userData="1"), eks(size=6)], "lowers its maximum to 6"),
        ([template(userData="1")], "deletes it"),
        ([], "deletes it"),
    ],
    ids=["template", "version", "replacement", "size", "removal", "all removed"],
)
def test_nodes_of_an_eks_group_stay_while_the_block_runs(change: list[Described], how: str, ask: Ask) -> None:
    (found,) = ask(RULE, stack(eks()), [offering(), block(), *change])
    assert how in found.message
    assert "runs from 2026-11-20 11:30 to 2026-11-27 11:30 UTC" in found.message
    assert "use1/pretrain" in found.message
    assert found.urn.endswith("::nodes")
    assert not found.violation.unknown


@pytest.mark.parametrize(
    ("now", "found"),
    [
        ("2026-11-20T11:29:59Z", 0),
        ("2026-11-20T11:30:00Z", 1),
        ("2026-11-27T11:29:59Z", 1),
        ("2026-11-27T11:30:00Z", 0),
        ("2026-11-20T13:29:59+02:00", 0),
        ("2026-11-20T13:30:00+02:00", 1),
    ],
)
def test_block_runs_from_its_start_until_its_end(now: str, found: int, ask: Ask) -> None:
    assert len(ask(RULE, stack(eks()), [offering(), block()], **at(now))) == found


@pytest.mark.parametrize(("now", "found"), [("2026-12-04T11:29:59Z", 1), ("2026-12-04T11:30:00Z", 0)])
def test_extended_block_runs_until_the_end_of_its_last_extension(now: str, found: int, ask: Ask) -> None:
    extensions = [
        {
            "type": BLOCK_EXTENSION,
            "name": f"block-extension-{number}",
            "props": {"reservation_id": BLOCK_ID, "end_date": end},
        }
        for number, end in ((1, "2026-11-29T11:30:00Z"), (2, "2026-12-04T11:30:00Z"))
    ]
    before, after = [*stack(eks()), *extensions], [offering(), block(), *extensions]
    assert len(ask(RULE, before, after, **at(now))) == found


@pytest.mark.parametrize(
    ("start", "found"),
    [
        ("2026-11-21T13:59:00+02:00", 1),
        ("2026-11-21T14:01:00+02:00", 0),
        ("2026-11-21T11:59:00", 1),
        ("2026-11-21T12:01:00", 0),
    ],
)
def test_date_of_another_time_zone_is_the_same_moment(start: str, found: int, ask: Ask) -> None:
    # The clock is at 12:00 UTC.
    assert len(ask(RULE, stack(eks(), start=start), [offering(), block(start)])) == found


def test_unknown_dates_fail_closed_unless_one_of_them_decides(ask: Ask) -> None:
    for dates in ({"start": None}, {"end": UNKNOWN}, {"start": "soon", "end": None}):
        (found,) = ask(RULE, stack(eks(), **dates), [offering()])
        assert found.violation.unknown
        assert "not known" in found.message
    assert ask(RULE, stack(eks(), start=None, end="2026-11-21T11:00:00Z"), [offering()]) == []
    assert ask(RULE, stack(eks(), start="2026-11-21T13:00:00Z", end=None), [offering()]) == []


def test_dates_of_the_offering_count_where_the_block_has_none(ask: Ask) -> None:
    def bought(end: str) -> list[Described]:
        return [
            offering(start_date=START, end_date=end),
            block(start=None, end=None),
            template(),
            eks(),
        ]

    assert len(ask(RULE, bought(END), [])) == 1
    assert ask(RULE, bought("2026-11-21T11:30:00Z"), []) == []


def schedule(nodes: int = 8, **more: Any) -> Described:
    props = {"group_name": "nodes-1", "reservation_id": "cr-other", "nodes": nodes, **more}
    return {"type": BLOCK_SCHEDULE, "name": "schedule", "props": props, "depends": {"group_name": ["nodes"]}}


def test_block_of_another_stack_has_the_dates_of_its_schedule(ask: Ask) -> None:
    held = [template("cr-other"), group(), schedule(start_date=START, end_date=END)]
    (found,) = ask(RULE, held, [template("cr-other")])
    assert not found.violation.unknown
    ended = [template("cr-other"), group(), schedule(start_date=START, end_date="2026-11-21T11:30:00Z")]
    assert ask(RULE, ended, []) == []
    (found,) = ask(RULE, held[:2], [])
    assert found.violation.unknown


REFRESH = {"strategy": "Rolling", "triggers": ["tag", "maxSize"]}


@pytest.mark.parametrize(
    ("after", "how"),
    [
        (group(size=4), "lowers its maximum to 4"),
        (group(desiredCapacity=2), "lowers desiredCapacity to 2"),
        (group(desiredCapacity=UNKNOWN), "lowers desiredCapacity"),
        (group(maxInstanceLifetime=86400), "older than 86400 seconds"),
        (group(vpcZoneIdentifiers=["subnet-2"]), "moves its nodes (by vpcZoneIdentifiers)"),
        (group(vpcZoneIdentifiers=UNKNOWN), "moves its nodes"),
        (group(tags=[], instanceRefresh=REFRESH), "tags, which trigger an instance refresh"),
        (group(launchTemplate={"id": "lt-2"}, instanceRefresh={"strategy": "Rolling"}), "launchTemplate"),
        (group(__replace=["name"]), "replaces it (by name)"),
    ],
)
def test_nodes_of_an_auto_scaling_group_stay_while_the_block_runs(
    after: Described, how: str, ask: Ask
) -> None:
    (found,) = ask(RULE, stack(group()), stack(after))
    assert how in found.message


@pytest.mark.parametrize(
    "after",
    [
        group(),
        group(size=10),
        group(desiredCapacity=9, maxSize=9),
        group(vpcZoneIdentifiers=["subnet-1", "subnet-2"]),
        group(tags=[]),
        group(maxInstanceLifetime=0),
        # Only an instance refresh replaces the nodes of an Auto Scaling group for a new template.
        group(launchTemplate={"id": "lt-2"}),
        {**group(desiredCapacity=2), "options": {"ignoreChanges": ["desiredCapacity"]}},
    ],
)
def test_change_that_keeps_the_nodes_of_an_auto_scaling_group_passes(after: Described, ask: Ask) -> None:
    assert ask(RULE, stack(group()), stack(after)) == []


def test_schedule_of_the_block_does_not_shrink(ask: Ask) -> None:
    before = [*stack(group(size=8)), schedule()]
    (found,) = ask(RULE, before, [*stack(group(size=8)), schedule(6, __replace=["nodes"])])
    assert "schedules 6 nodes instead of 8" in found.message
    assert ask(RULE, before, [*stack(group(size=8)), schedule(8, __replace=["region"])]) == []


def action(moment: str, nodes: int) -> Described:
    props = {"autoscalingGroupName": "nodes-1", "startTime": moment, "desiredCapacity": nodes, "minSize": 0}
    return {"type": SCHEDULE, "name": "stop", "props": props, "depends": {"autoscalingGroupName": ["nodes"]}}


@pytest.mark.parametrize(
    ("moment", "nodes", "found"),
    [
        ("2026-11-22T09:00:00Z", 0, 1),
        ("2026-11-22T09:00:00Z", 4, 1),
        ("2026-11-22T09:00:00Z", 8, 0),
        ("2026-11-22T09:00:00Z", -1, 0),
        ("2026-11-27T10:29:00Z", 0, 1),
        ("2026-11-27T10:30:00Z", 0, 0),
    ],
)
def test_only_the_end_of_the_block_stops_its_nodes(moment: str, nodes: int, found: int, ask: Ask) -> None:
    judged = ask(RULE, stack(group()), [*stack(group()), action(moment, nodes)])
    assert len(judged) == found
    assert all(f"desiredCapacity: {nodes}" in each.message for each in judged)


def test_nodes_outside_a_block_are_not_judged(ask: Ask) -> None:
    plain = {**eks(capacityType="ON_DEMAND"), "name": "other"}
    on_demand = {"type": LAUNCH_TEMPLATE, "name": "template", "props": {"userData": "1"}}
    assert ask(RULE, [block(), offering(), on_demand, plain], [block(), offering(), on_demand]) == []


def test_exemption_of_the_group_is_consent(ask: Ask) -> None:
    consent = Exemption(
        rule=RULE,
        resource="nodes",
        reason="the image is broken",
        approver="Ada",
        expires=dt.date(2026, 12, 1),
    )
    (found,) = ask(RULE, stack(eks()), [offering(), block()], exemptions=[consent])
    assert found.level != "mandatory"
    other = consent.model_copy(update={"resource": "others"})
    (found,) = ask(RULE, stack(eks()), [offering(), block()], exemptions=[other])
    assert found.level == "mandatory"


def fleet(start: str) -> Described:
    block = {"nodes": 8, "duration": "7 d", "start": start}
    nodes = {
        "name": "pretrain",
        "instance_types": ["p5.48xlarge"],
        "zones": ["us-east-1a"],
        "capacity": {"reserved": {"capacity_block": block}},
    }
    return {
        "apiVersion": "gpufleet/v1",
        "fleet": "atlas",
        "environment": "prod",
        "budget": {"monthly": "1000 USD"},
        "tags": {"team": "ml", "cost-center": "cc-1", "project": "atlas"},
        "software": {"channel": "2026.11"},
        "cloud": [
            {
                "site": "use1",
                "provider": "aws",
                "region": "us-east-1",
                "zones": ["us-east-1a", "us-east-1b"],
                "network": {"cidr": "10.40.0.0/16"},
                "scheduler": "kubernetes",
                "node_groups": [nodes],
            }
        ],
    }


@pytest.mark.parametrize(
    ("start", "found"),
    [
        # A block may start up to 36 h after the requested start and then runs for 7 d.
        ("2026-11-13T00:01:00Z", 1),
        ("2026-11-13T00:00:00Z", 0),
        ("2026-11-21T12:00:00Z", 1),
        ("2026-11-21T12:01:00Z", 0),
        ("in 14 d", 1),
    ],
)
def test_verdict_judges_by_the_requested_start(start: str, found: int, ask: Ask) -> None:
    # The emulated account sold a block of other dates: they do not count.
    before = stack(eks(), start="2026-12-21T11:30:00Z", end="2026-12-28T11:30:00Z")
    judged = ask(RULE, before, [offering(), block()], fleet_before=fleet(start), **VERDICT)
    assert len(judged) == found
    assert all(each.violation.unknown for each in judged)


def test_verdict_on_a_program_without_a_fleet_file_reads_the_offering(ask: Ask) -> None:
    def bought(start: str) -> list[Described]:
        return [offering(start=start, duration_hours=168.0), block(), template(), eks()]

    assert len(ask(RULE, bought("2026-11-20T11:30:00Z"), [], **VERDICT)) == 1
    assert ask(RULE, bought("2026-12-20T11:30:00Z"), [], **VERDICT) == []
    assert len(ask(RULE, [offering(), block(), template(), eks()], [], **VERDICT)) == 1
