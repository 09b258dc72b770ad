"""scale-to-zero: minimums, later increases of them, and exemptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    BATCH,
    CAPACITY_RESERVATION,
    FLEET,
    INSTANCE,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    SCHEDULE,
    SPOT_FLEET,
)

Ask = Callable[..., list[RuleViolation]]
RULE = "scale-to-zero"
NOWHERE: dict[str, Any] = {"environments": []}


def group(minimum: Any, **more: Any) -> dict[str, Any]:
    props = {"instanceTypes": ["g6.xlarge"], "scalingConfig": {"minSize": minimum, "maxSize": 4}}
    return {"type": NODE_GROUP, "name": "nodes", "props": {**props, **more}}


def test_minimum_above_zero_is_found_only_outside_prod(ask: Ask) -> None:
    assert ask(RULE, group(1)) == []
    (found,) = ask(RULE, group(1), stack="dev")
    assert "keeps 1 instances" in found.message
    assert ask(RULE, group(0), stack="dev") == []


def test_desired_size_above_zero_is_not_a_minimum(ask: Ask) -> None:
    sized = group(0, scalingConfig={"minSize": 0, "desiredSize": 2, "maxSize": 4})
    assert ask(RULE, sized, settings=NOWHERE) == []


@pytest.mark.parametrize(
    "described",
    [
        {"type": AUTO_SCALING_GROUP, "props": {"minSize": 2, "maxSize": 2}},
        {"type": FLEET, "props": {"targetCapacitySpecification": {"totalTargetCapacity": 2}}},
        {"type": SPOT_FLEET, "props": {"targetCapacity": 2}},
        {"type": BATCH, "props": {"computeResources": {"minVcpus": 8, "maxVcpus": 64}}},
    ],
)
def test_every_kind_of_group_counts(described: dict[str, Any], ask: Ask) -> None:
    assert len(ask(RULE, described, settings=NOWHERE)) == 1


@pytest.mark.parametrize(
    "described",
    [
        group(UNKNOWN),
        group(0, scalingConfig=UNKNOWN),
        {**group(0), "options": {"ignoreChanges": ["scalingConfig.minSize"]}},
        {**group(0), "options": {"ignoreChanges": ["scalingConfig"]}},
    ],
)
def test_unknown_or_ignored_minimum_fails_closed(described: dict[str, Any], ask: Ask) -> None:
    (found,) = ask(RULE, described, settings=NOWHERE)
    assert found.violation.unknown


def test_minimum_raised_by_a_schedule_is_found(ask: Ask) -> None:
    later = {"type": SCHEDULE, "name": "later", "depends": {"autoscalingGroupName": ["nodes"]}}
    assert len(ask(RULE, group(0), {**later, "props": {"minSize": 1}}, settings=NOWHERE)) == 1
    assert ask(RULE, group(0), {**later, "props": {"minSize": -1}}, settings=NOWHERE) == []


def test_system_nodes_are_exempt_unless_they_have_gpus(ask: Ask) -> None:
    system = {"labels": {"gpufleet.io/node-group": "system"}}
    assert ask(RULE, group(2, instanceTypes=["m7i.xlarge"], **system), settings=NOWHERE) == []
    tagged = {"tags": {"gpufleet:node-group": "system"}}
    assert ask(RULE, group(2, instanceTypes=["m7i.xlarge"], **tagged), settings=NOWHERE) == []
    assert len(ask(RULE, group(2, **system), settings=NOWHERE)) == 1
    assert len(ask(RULE, group(2, instanceTypes=UNKNOWN, **system), settings=NOWHERE)) == 1
    assert len(ask(RULE, group(2, instanceTypes=["m7i.xlarge"]), settings=NOWHERE)) == 1


def test_workloads_in_the_settings_are_exempt(ask: Ask) -> None:
    serving = group(1, labels={"gpufleet.io/workload": "inference"})
    assert ask(RULE, serving, settings={**NOWHERE, "workloads": ["inference"]}) == []
    assert len(ask(RULE, serving, settings={**NOWHERE, "workloads": ["batch"]})) == 1
    assert len(ask(RULE, group(1), settings={**NOWHERE, "workloads": [""]})) == 1


def test_nodes_that_fill_a_reservation_are_exempt(ask: Ask) -> None:
    spec = {"capacityReservationTarget": {"capacityReservationId": UNKNOWN}}
    held = {"type": CAPACITY_RESERVATION, "name": "held", "props": {"instanceType": "g6.xlarge"}}
    template = {
        "type": LAUNCH_TEMPLATE,
        "name": "template",
        "props": {"capacityReservationSpecification": spec},
        "depends": {"capacityReservationSpecification": ["held"]},
    }
    inside = group(1, launchTemplate={"id": UNKNOWN})
    assert (
        ask(RULE, held, template, {**inside, "depends": {"launchTemplate": ["template"]}}, settings=NOWHERE)
        == []
    )


def test_single_instance_is_not_a_group(ask: Ask) -> None:
    assert ask(RULE, {"type": INSTANCE, "props": {"instanceType": "g6.xlarge"}}, settings=NOWHERE) == []
