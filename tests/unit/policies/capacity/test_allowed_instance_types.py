"""allowed-instance-types: every way to write or to hide a type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    BATCH,
    CAPACITY_BLOCK,
    CAPACITY_RESERVATION,
    FLEET,
    INSTANCE,
    LAUNCH_CONFIGURATION,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    SPOT_FLEET,
    SPOT_INSTANCE_REQUEST,
)

Ask = Callable[..., list[RuleViolation]]
RULE = "allowed-instance-types"
OTHER = "p5en.48xlarge"
ONLY = {"allowed": ["g6.*"]}


def mixed(*overrides: Any) -> dict[str, Any]:
    return {"mixedInstancesPolicy": {"launchTemplate": {"overrides": list(overrides)}}, "maxSize": 1}


WAYS: list[tuple[str, dict[str, Any]]] = [
    (NODE_GROUP, {"instanceTypes": ["g6.xlarge", OTHER]}),
    (AUTO_SCALING_GROUP, mixed({"instanceType": "g6.xlarge"}, {"instanceType": OTHER})),
    (INSTANCE, {"instanceType": OTHER}),
    (SPOT_INSTANCE_REQUEST, {"instanceType": OTHER}),
    (FLEET, {"launchTemplateConfigs": [{"overrides": [{"instanceType": OTHER}]}]}),
    (FLEET, {"launchTemplateConfigs": {"overrides": [{"instanceType": OTHER}]}}),
    (SPOT_FLEET, {"launchSpecifications": [{"instanceType": OTHER}], "targetCapacity": 1}),
    (BATCH, {"computeResources": {"instanceTypes": [OTHER], "maxVcpus": 192}}),
    (LAUNCH_TEMPLATE, {"instanceType": OTHER}),
    (LAUNCH_CONFIGURATION, {"instanceType": OTHER}),
    (CAPACITY_RESERVATION, {"instanceType": OTHER}),
    ("aws:ec2/dedicatedHost:DedicatedHost", {"instanceType": OTHER}),
    ("aws:sagemaker/notebookInstance:NotebookInstance", {"instanceType": f"ml.{OTHER}"}),
    (
        "aws:sagemaker/endpointConfiguration:EndpointConfiguration",
        {"productionVariants": [{"instanceType": f"ml.{OTHER}"}]},
    ),
]


@pytest.mark.parametrize(("kind", "props"), WAYS)
def test_type_outside_the_patterns_is_found_in_any_property(
    kind: str, props: dict[str, Any], ask: Ask
) -> None:
    (found,) = ask(RULE, {"type": kind, "props": props}, settings=ONLY)
    assert OTHER in found.message
    assert "g6.*" in found.message


@pytest.mark.parametrize(("kind", "props"), WAYS)
def test_every_type_of_the_catalog_passes_by_default(kind: str, props: dict[str, Any], ask: Ask) -> None:
    assert ask(RULE, {"type": kind, "props": props}) == []


@pytest.mark.parametrize("name", ["p5.48xlarg", "P5.48XLARGE", " p5.48xlarge", "p99.48xlarge"])
def test_type_missing_in_the_catalog_is_found(name: str, ask: Ask) -> None:
    (found,) = ask(RULE, {"type": INSTANCE, "props": {"instanceType": name}})
    assert "not in the catalog" in found.message


def test_type_missing_in_the_catalog_passes_if_the_settings_list_it(ask: Ask) -> None:
    instance = {"type": INSTANCE, "props": {"instanceType": "p99.48xlarge"}}
    assert ask(RULE, instance, settings={"also": ["p99.48xlarge"]}) == []


@pytest.mark.parametrize(
    ("kind", "props"),
    [
        (INSTANCE, {"instanceType": UNKNOWN}),
        (NODE_GROUP, {"instanceTypes": UNKNOWN}),
        (NODE_GROUP, {"instanceTypes": [UNKNOWN]}),
        (AUTO_SCALING_GROUP, mixed({"instanceRequirements": {"vcpuCount": {"min": 1}}})),
        (AUTO_SCALING_GROUP, mixed({"instanceRequirements": {"allowedInstanceTypes": ["g6.*"]}})),
        (FLEET, {"launchTemplateConfigs": UNKNOWN}),
        (LAUNCH_TEMPLATE, {"instanceType": UNKNOWN}),
        (CAPACITY_BLOCK, {"capacityBlockOfferingId": "cbr-0123456789abcdef0"}),
        (INSTANCE, {"launchTemplate": {"id": "lt-elsewhere", "version": "$Latest"}}),
        (INSTANCE, {}),
    ],
)
def test_unknown_type_value_fails_closed(kind: str, props: dict[str, Any], ask: Ask) -> None:
    (found,) = ask(RULE, {"type": kind, "props": props}, settings=ONLY)
    assert found.violation.unknown


def test_launch_template_type_counts_if_the_launcher_has_none(ask: Ask) -> None:
    (found,) = ask(
        RULE,
        {"type": LAUNCH_TEMPLATE, "name": "template", "props": {"instanceType": OTHER}},
        {
            "type": AUTO_SCALING_GROUP,
            "name": "nodes",
            "props": {"launchTemplate": {"id": UNKNOWN, "version": UNKNOWN}, "maxSize": 1},
            "depends": {"launchTemplate": ["template"]},
        },
        settings=ONLY,
    )
    assert found.urn.endswith("::nodes")


def test_pinned_template_version_fails_closed(ask: Ask) -> None:
    (found,) = ask(
        RULE,
        {
            "type": LAUNCH_TEMPLATE,
            "name": "template",
            "props": {"id": "lt-1", "instanceType": "g6.xlarge", "latestVersion": 7, "defaultVersion": 7},
        },
        {
            "type": INSTANCE,
            "name": "node",
            "props": {"launchTemplate": {"id": "lt-1", "version": "3"}},
        },
        {
            "type": INSTANCE,
            "name": "newest",
            "props": {"launchTemplate": {"id": "lt-1", "version": "7"}},
        },
        settings=ONLY,
    )
    assert found.urn.endswith("::node")
    assert found.violation.unknown
    assert "version 3" in found.message


def test_instance_requirements_with_exact_names_are_judged_by_them(ask: Ask) -> None:
    group = mixed({"instanceRequirements": {"allowedInstanceTypes": ["g6.xlarge"]}})
    assert ask(RULE, {"type": AUTO_SCALING_GROUP, "props": group}, settings=ONLY) == []


def test_default_eks_type_counts_if_none_is_given(ask: Ask) -> None:
    (found,) = ask(RULE, {"type": NODE_GROUP, "props": {"scalingConfig": {"maxSize": 1}}}, settings=ONLY)
    assert "t3.medium" in found.message
