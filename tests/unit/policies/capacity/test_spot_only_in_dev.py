"""spot-only-in-dev: every way to buy spot, and where it is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    BATCH,
    FLEET,
    INSTANCE,
    LAUNCH_CONFIGURATION,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    SPOT_FLEET,
    SPOT_INSTANCE_REQUEST,
)

Ask = Callable[..., list[RuleViolation]]
RULE = "spot-only-in-dev"


def mixed(share: Any, **more: Any) -> dict[str, Any]:
    distribution = {"onDemandPercentageAboveBaseCapacity": share, **more}
    return {"maxSize": 1, "mixedInstancesPolicy": {"instancesDistribution": distribution}}


WAYS: list[tuple[str, dict[str, Any]]] = [
    (NODE_GROUP, {"capacityType": "SPOT"}),
    (NODE_GROUP, {"capacityType": "Spot"}),
    (AUTO_SCALING_GROUP, mixed(0)),
    (AUTO_SCALING_GROUP, mixed(99, onDemandBaseCapacity=10)),
    (INSTANCE, {"instanceMarketOptions": {"marketType": "spot"}}),
    (SPOT_INSTANCE_REQUEST, {"instanceType": "g6.xlarge"}),
    (SPOT_FLEET, {"targetCapacity": 1}),
    (FLEET, {"targetCapacitySpecification": {"defaultTargetCapacityType": "spot", "totalTargetCapacity": 1}}),
    (
        FLEET,
        {
            "targetCapacitySpecification": {
                "defaultTargetCapacityType": "on-demand",
                "totalTargetCapacity": 2,
                "spotTargetCapacity": 1,
            }
        },
    ),
    (BATCH, {"computeResources": {"type": "SPOT", "maxVcpus": 4}}),
]


@pytest.mark.parametrize(("kind", "props"), WAYS)
def test_spot_is_found_in_every_purchase_form(kind: str, props: dict[str, Any], ask: Ask) -> None:
    (found,) = ask(RULE, {"type": kind, "props": props})
    assert not found.violation.unknown
    assert "spot" in found.message


@pytest.mark.parametrize(("kind", "props"), WAYS)
def test_spot_passes_in_environments_of_the_settings(kind: str, props: dict[str, Any], ask: Ask) -> None:
    assert ask(RULE, {"type": kind, "props": props}, settings={"environments": ["pro*"]}) == []
    assert ask(RULE, {"type": kind, "props": props}, stack="dev") == []


@pytest.mark.parametrize(
    ("kind", "props"),
    [
        (LAUNCH_TEMPLATE, {"instanceMarketOptions": {"marketType": "spot"}}),
        (LAUNCH_CONFIGURATION, {"spotPrice": "0.5"}),
    ],
)
def test_spot_hidden_in_a_launch_template_is_found(kind: str, props: dict[str, Any], ask: Ask) -> None:
    prop = "launchTemplate" if kind == LAUNCH_TEMPLATE else "launchConfiguration"
    value: Any = {"id": UNKNOWN} if kind == LAUNCH_TEMPLATE else UNKNOWN
    group = {"type": AUTO_SCALING_GROUP, "name": "nodes", "props": {"maxSize": 1, prop: value}}
    template = {"type": kind, "name": "template", "props": props}
    (found,) = ask(RULE, template, {**group, "depends": {prop: ["template"]}})
    assert found.urn.endswith("::nodes")


@pytest.mark.parametrize(
    ("kind", "props"),
    [
        (NODE_GROUP, {"capacityType": UNKNOWN}),
        (AUTO_SCALING_GROUP, mixed(UNKNOWN)),
        (AUTO_SCALING_GROUP, {"maxSize": 1, "mixedInstancesPolicy": UNKNOWN}),
        (INSTANCE, {"launchTemplate": {"id": "lt-elsewhere", "version": "$Latest"}}),
    ],
)
def test_unknown_purchase_option_fails_closed(kind: str, props: dict[str, Any], ask: Ask) -> None:
    (found,) = ask(RULE, {"type": kind, "props": props})
    assert found.violation.unknown


def test_only_workloads_of_the_settings_pass(ask: Ask) -> None:
    batch = {"workloads": ["batch"]}
    for workload, found in (("batch", 0), ("training", 1), ("Batch", 1)):
        labels = {"gpufleet.io/workload": workload}
        group = {"type": NODE_GROUP, "props": {"capacityType": "SPOT", "labels": labels}}
        assert len(ask(RULE, group, settings=batch)) == found, workload
    unlabelled = {"type": NODE_GROUP, "props": {"capacityType": "SPOT"}}
    assert len(ask(RULE, unlabelled, settings=batch)) == 1
    secret = {"type": NODE_GROUP, "props": {"capacityType": "SPOT", "labels": UNKNOWN}}
    assert len(ask(RULE, secret, settings=batch)) == 1


def test_karpenter_with_spot_is_found(ask: Ask) -> None:
    need = {"key": "karpenter.sh/capacity-type", "values": ["on-demand", "spot"]}
    spec = {"template": {"spec": {"requirements": [need]}}}
    pool = {"type": "kubernetes:karpenter.sh/v1:NodePool", "props": {"spec": spec}}
    assert len(ask(RULE, pool)) == 1
    need["values"] = ["on-demand"]
    assert ask(RULE, pool) == []


def test_on_demand_passes(ask: Ask) -> None:
    assert ask(RULE, {"type": NODE_GROUP, "props": {"capacityType": "ON_DEMAND"}}) == []
    assert ask(RULE, {"type": AUTO_SCALING_GROUP, "props": mixed(100)}) == []
    assert ask(RULE, {"type": INSTANCE, "props": {"instanceType": "g6.xlarge"}}) == []
