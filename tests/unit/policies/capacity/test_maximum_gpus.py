"""maximum-gpus: counted at maximum size, once, and never passed where it cannot be counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import (
    APP_SCALING_TARGET,
    AUTO_SCALING_GROUP,
    BATCH,
    BLOCK_OFFERING,
    BLOCK_SCHEDULE,
    CAPACITY_BLOCK,
    CAPACITY_RESERVATION,
    CLUSTER,
    FLEET,
    INSTANCE,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    SCHEDULE,
    SPOT_FLEET,
    SUBNET,
)

Ask = Callable[..., list[RuleViolation]]
RULE = "maximum-gpus"
H100 = "p5.48xlarge"


def limit(gpus: int, kind: str = "H100") -> dict[str, Any]:
    return {"max_gpus": {kind: gpus}}


def group(size: int, name: str = "nodes", **more: Any) -> dict[str, Any]:
    props = {"instanceTypes": [H100], "scalingConfig": {"minSize": 0, "desiredSize": 0, "maxSize": size}}
    return {"type": NODE_GROUP, "name": name, "props": {**props, **more}}


def count(found: list[RuleViolation]) -> str:
    (one,) = found
    assert not one.violation.unknown, one.message
    return one.message.split(" GPUs")[0]


def test_group_counts_at_its_maximum(ask: Ask) -> None:
    assert count(ask(RULE, group(4), settings=limit(31))) == "32"
    assert ask(RULE, group(4), settings=limit(32)) == []


def test_rule_is_off_without_a_limit(ask: Ask) -> None:
    assert ask(RULE, group(4000, instanceTypes=[UNKNOWN])) == []


def test_gpu_kinds_ignore_case_and_an_unknown_kind_is_an_error(ask: Ask) -> None:
    assert count(ask(RULE, group(4), settings=limit(1, "h100"))) == "32"
    (found,) = ask(RULE, group(4), settings=limit(1000, "H1000"))
    assert "no instance type" in found.message


def test_other_gpu_kinds_count_only_for_the_total(ask: Ask) -> None:
    l40s = group(2, "other", instanceTypes=["g6e.48xlarge"])
    assert ask(RULE, group(1), l40s, settings=limit(8)) == []
    assert count(ask(RULE, group(1), l40s, settings=limit(8, "all"))) == "24"


def test_groups_are_summed_and_the_largest_are_named_first(ask: Ask) -> None:
    (found,) = ask(RULE, group(1, "small"), group(3, "large"), settings=limit(8))
    assert found.message.endswith(
        "large 24, small 8; lower the maximum of these, or raise `policies.maximum-gpus.settings.max_gpus`"
    )


def test_type_with_the_most_gpus_counts(ask: Ask) -> None:
    types = ["p5.4xlarge", H100]
    assert count(ask(RULE, group(2, instanceTypes=types), settings=limit(1))) == "16"


@pytest.mark.parametrize(
    ("described", "gpus"),
    [
        ({"type": INSTANCE, "props": {"instanceType": H100}}, "8"),
        (
            {
                "type": FLEET,
                "props": {
                    "targetCapacitySpecification": {"totalTargetCapacity": 3},
                    "launchTemplateConfigs": [{"overrides": [{"instanceType": H100}]}],
                },
            },
            "24",
        ),
        (
            {
                "type": SPOT_FLEET,
                "props": {
                    "targetCapacity": 16,
                    "launchSpecifications": [{"instanceType": H100, "weightedCapacity": "8"}],
                },
            },
            "16",
        ),
        (
            {"type": BATCH, "props": {"computeResources": {"instanceTypes": [H100], "maxVcpus": 400}}},
            "24",
        ),
        (
            {
                "type": AUTO_SCALING_GROUP,
                "props": {
                    "maxSize": 2,
                    "mixedInstancesPolicy": {"launchTemplate": {"overrides": [{"instanceType": H100}]}},
                },
            },
            "16",
        ),
        ({"type": CAPACITY_RESERVATION, "props": {"instanceType": H100, "instanceCount": 2}}, "16"),
    ],
)
def test_everything_that_launches_or_reserves_counts(described: dict[str, Any], gpus: str, ask: Ask) -> None:
    assert count(ask(RULE, described, settings=limit(1))) == gpus


def reserved(count: int, size: int, criteria: str = "targeted") -> list[dict[str, Any]]:
    target = {"capacityReservationTarget": {"capacityReservationId": UNKNOWN}}
    return [
        {
            "type": CAPACITY_RESERVATION,
            "name": "reservation",
            "props": {
                "instanceType": H100,
                "instanceCount": count,
                "availabilityZone": "us-east-1a",
                "instanceMatchCriteria": criteria,
            },
        },
        {
            "type": LAUNCH_TEMPLATE,
            "name": "template",
            "props": {"capacityReservationSpecification": target},
            "depends": {"capacityReservationSpecification": ["reservation"]},
        },
        {
            **group(size, launchTemplate={"id": UNKNOWN, "version": UNKNOWN}),
            "depends": {"launchTemplate": ["template"]},
        },
    ]


def test_reservation_and_its_group_count_once(ask: Ask) -> None:
    assert count(ask(RULE, *reserved(4, 4), settings=limit(1))) == "32"
    assert count(ask(RULE, *reserved(4, 2), settings=limit(1))) == "32"
    assert count(ask(RULE, *reserved(2, 4), settings=limit(1))) == "32"


def test_open_reservation_counts_once_with_a_group_of_its_type_and_zone(ask: Ask) -> None:
    held = reserved(4, 4, "open")[0]
    subnet = {"type": SUBNET, "name": "subnet", "props": {"availabilityZone": "us-east-1a"}}
    inside = {**group(4, subnetIds=UNKNOWN), "depends": {"subnetIds": ["subnet"]}}
    assert count(ask(RULE, held, subnet, inside, settings=limit(1))) == "32"
    other = {**subnet, "props": {"availabilityZone": "us-east-1b"}}
    assert count(ask(RULE, held, other, inside, settings=limit(1))) == "64"


def test_block_to_be_bought_counts_as_requested(ask: Ask) -> None:
    offering = {
        "type": BLOCK_OFFERING,
        "name": "offering",
        "props": {"instance_type": H100, "count": 64, "zones": ["us-east-1a"]},
    }
    block = {
        "type": CAPACITY_BLOCK,
        "name": "block",
        "props": {"capacityBlockOfferingId": UNKNOWN},
        "depends": {"capacityBlockOfferingId": ["offering"]},
    }
    assert count(ask(RULE, offering, block, settings=limit(1))) == "512"
    (found,) = ask(RULE, {**block, "depends": {}}, settings=limit(1000))
    assert found.violation.unknown


@pytest.mark.parametrize(
    "raising",
    [
        {"type": SCHEDULE, "props": {"maxSize": 9}, "depends": {"autoscalingGroupName": ["nodes"]}},
        {"type": SCHEDULE, "props": {"desiredCapacity": 9}, "depends": {"autoscalingGroupName": ["nodes"]}},
        {"type": BLOCK_SCHEDULE, "props": {"nodes": 9}, "depends": {"group_name": ["nodes"]}},
    ],
)
def test_maximum_raised_after_creation_counts(raising: dict[str, Any], ask: Ask) -> None:
    assert count(ask(RULE, group(1), {**raising, "name": "later"}, settings=limit(1))) == "72"


def test_maximum_raised_by_the_group_name_counts(ask: Ask) -> None:
    named = {
        "type": AUTO_SCALING_GROUP,
        "name": "nodes",
        "props": {
            "name": "pretrain",
            "maxSize": 1,
            "mixedInstancesPolicy": {"launchTemplate": {"overrides": [{"instanceType": H100}]}},
        },
    }
    later = {"type": SCHEDULE, "name": "later", "props": {"autoscalingGroupName": "pretrain", "maxSize": 9}}
    assert count(ask(RULE, named, later, settings=limit(1))) == "72"


def test_warm_pool_and_application_auto_scaling_raise_a_maximum(ask: Ask) -> None:
    warm = group(1, warmPoolConfig={"maxGroupPreparedCapacity": 3})
    assert count(ask(RULE, warm, settings=limit(1))) == "24"
    fleet = {
        "type": SPOT_FLEET,
        "name": "fleet",
        "props": {"targetCapacity": 1, "launchSpecifications": [{"instanceType": H100}]},
    }
    target = {
        "type": APP_SCALING_TARGET,
        "name": "target",
        "props": {"maxCapacity": 5},
        "depends": {"resourceId": ["fleet"]},
    }
    assert count(ask(RULE, fleet, target, settings=limit(1))) == "40"


@pytest.mark.parametrize(
    "described",
    [
        group(1, instanceTypes=UNKNOWN),
        group(1, instanceTypes=["p99.48xlarge"]),
        group(1, scalingConfig=UNKNOWN),
        group(1, scalingConfig={"maxSize": UNKNOWN}),
        {**group(1), "options": {"ignoreChanges": ["scalingConfig"]}},
        {**group(1), "options": {"ignoreChanges": ["scalingConfig.maxSize"]}},
        {**group(1), "options": {"ignoreChanges": ["*"]}},
        {"type": CAPACITY_RESERVATION, "props": {"instanceType": H100, "instanceCount": UNKNOWN}},
        {"type": SCHEDULE, "props": {"autoscalingGroupName": "eks-elsewhere", "maxSize": 9}},
        {"type": CLUSTER, "props": {"computeConfig": {"enabled": True}}},
        {"type": CLUSTER, "props": {"computeConfig": UNKNOWN}},
        {
            "type": "aws:sagemaker/notebookInstance:NotebookInstance",
            "props": {"instanceType": "ml.p5.48xlarge"},
        },
        {"type": "aws:ecs/capacityProvider:CapacityProvider", "props": {"managedInstancesProvider": {}}},
        {"type": "kubernetes:karpenter.sh/v1:NodePool", "props": {"spec": {}}},
    ],
)
def test_uncountable_group_fails_closed(described: dict[str, Any], ask: Ask) -> None:
    found = ask(RULE, described, settings=limit(10_000))
    assert found != []
    assert all(each.violation.unknown for each in found)


@pytest.mark.parametrize(
    "described",
    [
        {**group(1), "options": {"ignoreChanges": ["scalingConfig.desiredSize"]}},
        {"type": CLUSTER, "props": {"computeConfig": {"enabled": False}}},
        {
            "type": "aws:sagemaker/notebookInstance:NotebookInstance",
            "props": {"instanceType": "ml.m7i.xlarge"},
        },
        {"type": "kubernetes:karpenter.sh/v1:NodePool", "props": {"spec": {"limits": {"nvidia.com/gpu": 0}}}},
        {"type": SCHEDULE, "props": {"autoscalingGroupName": "elsewhere", "maxSize": 0}},
    ],
)
def test_group_without_gpus_or_with_a_known_maximum_passes(described: dict[str, Any], ask: Ask) -> None:
    assert ask(RULE, described, settings=limit(10_000)) == []
