"""Karpenter for node groups: what it cannot do, and what it cannot limit, is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checks.fleets import Judge

FIELD = "cloud.0.kubernetes.autoscaler"
KARPENTER = {FIELD: {"kind": "karpenter"}}
TRAIN = "cloud.0.node_groups.0"
SWEEP = "cloud.0.node_groups.3"


def test_ordinary_groups_pass(judge: Judge) -> None:
    assert judge(KARPENTER).rules == set()
    settings = {"kind": "karpenter", "scale_down_after": "20 min", "changed_nodes": "when-idle"}
    assert judge({FIELD: settings}).rules == set()


@pytest.mark.parametrize(
    ("change", "field", "resource"),
    [
        ({"gpu_sharing": {"time_slicing": {"replicas": 4}}}, "gpu_sharing", "nvidia.com/gpu.shared"),
        ({"mig_profile": "1g.10gb"}, "mig_profile", "nvidia.com/mig-1g.10gb"),
    ],
)
def test_nodes_with_parts_of_gpus_are_refused(
    judge: Judge, change: dict[str, Any], field: str, resource: str
) -> None:
    stack = {"cloud.0.kubernetes.gpu_stack": "gpu-operator"}
    changes = {**KARPENTER, **stack, **{f"{TRAIN}.{key}": value for key, value in change.items()}}
    (finding,) = judge(changes).of("karpenter-shared-gpus")
    assert finding.field == f"cloud[0].node_groups[0].{field}"
    assert resource in finding.message
    assert "cluster-autoscaler" in finding.remedy
    assert "karpenter-shared-gpus" not in judge({**changes, FIELD: {}}).rules
    fixed = {**changes, f"{TRAIN}.capacity": {"on_demand": {"min": 2, "max": 2}}}
    assert "karpenter-shared-gpus" not in judge(fixed).rules


def test_types_of_several_sizes_are_refused(judge: Judge) -> None:
    types = {f"{SWEEP}.instance_types": ["m7i.xlarge", "m7i.2xlarge"]}
    (finding,) = judge({**KARPENTER, **types}).of("karpenter-type-sizes")
    assert (finding.field, finding.severity) == ("cloud[0].node_groups[3].instance_types", "error")
    assert "vCPUs (m7i.xlarge 4, m7i.2xlarge 8)" in finding.message
    assert "karpenter-type-sizes" not in judge({FIELD: {}, **types}).rules
    alike = {f"{SWEEP}.instance_types": ["m7i.xlarge", "m6i.xlarge"]}
    assert "karpenter-type-sizes" not in judge({**KARPENTER, **alike}).rules
    unknown = {f"{SWEEP}.instance_types": ["m7i.xlarge", "m99i.2xlarge"]}
    assert judge({**KARPENTER, **unknown}).rules == {"instance-type-known"}


def test_types_with_as_many_devices_pass_whatever_else_they_have(judge: Judge) -> None:
    changes = {**KARPENTER, f"{SWEEP}.instance_types": ["g6e.xlarge", "g6e.4xlarge"]}
    assert "karpenter-type-sizes" not in judge(changes).rules


def test_initial_size_is_refused_unless_it_is_the_minimum(judge: Judge) -> None:
    def capacity(desired: int) -> dict[str, Any]:
        return {**KARPENTER, f"{SWEEP}.capacity": {"spot": {"min": 1, "max": 4, "desired": desired}}}

    finding = judge(capacity(3)).only("karpenter-desired")
    assert finding.field == "cloud[0].node_groups[3].capacity.spot.desired"
    assert "starts with 3 nodes" in finding.message
    assert "karpenter-desired" not in judge(capacity(1)).rules


def test_settings_of_the_other_autoscaler_are_refused(judge: Judge) -> None:
    finding = judge({FIELD: {"kind": "karpenter", "expander": "priority"}}).only("autoscaler-field")
    assert finding.field == "cloud[0].kubernetes.autoscaler.expander"
    finding = judge({FIELD: {"changed_nodes": "when-idle"}}).only("autoscaler-field")
    assert finding.field == "cloud[0].kubernetes.autoscaler.changed_nodes"
    assert "kind: cluster-autoscaler" in finding.message
    finding = judge({FIELD: {"reserved_nodes": "node-pools"}}).only("autoscaler-field")
    assert finding.field == "cloud[0].kubernetes.autoscaler.reserved_nodes"
    assert judge({FIELD: {"kind": "karpenter", "reserved_nodes": "node-pools"}}).rules == set()


HELD = "cloud.0.node_groups.2"
IN_POOLS = {FIELD: {"kind": "karpenter", "reserved_nodes": "node-pools"}}


def test_parts_of_reserved_gpus_are_refused_in_pools_only(judge: Judge) -> None:
    changes = {f"{HELD}.mig_profile": "1g.5gb", "cloud.0.kubernetes.gpu_stack": "gpu-operator"}
    (finding,) = judge({**IN_POOLS, **changes}).of("karpenter-shared-gpus")
    assert finding.field == "cloud[0].node_groups[2].mig_profile"
    assert "reserved_nodes: node-groups" in finding.remedy
    assert "karpenter-shared-gpus" not in judge({**KARPENTER, **changes}).rules


@pytest.mark.parametrize(
    ("reserved", "empty"),
    [
        ({"odcr": {"nodes": 1, "zone": "us-east-1b"}}, False),
        ({"capacity_block": {"nodes": 1, "duration": "7 d", "start": "in 14 d"}}, False),
        ({"odcr": {"nodes": 1, "group": "arn:aws:resource-groups:us-east-1:111122223333:group/a"}}, True),
    ],
)
def test_reservation_that_a_node_class_can_select_is_something_to_scale(
    judge: Judge, reserved: dict[str, Any], empty: bool
) -> None:
    groups = [
        {"name": "only", "instance_types": ["p5.48xlarge"], "capacity": {"reserved": reserved}},
    ]
    changes = {"cloud.0.node_groups": groups}
    assert bool(judge({**IN_POOLS, **changes}).of("autoscaler-of-nothing")) is empty
    assert judge({**KARPENTER, **changes}).of("autoscaler-of-nothing")
    order = {"cloud.0.ordered_capacity": [{"name": "drawn", "nodes": 1, "groups": ["only"]}]}
    assert judge({**IN_POOLS, **changes, **order}).of("autoscaler-of-nothing")


def test_site_with_fixed_groups_has_nothing_to_scale_whatever_its_system_nodes(judge: Judge) -> None:
    fixed = {"on_demand": {"min": 1, "max": 1}}
    changes = {**KARPENTER, f"{TRAIN}.capacity": fixed, f"{SWEEP}.capacity": fixed}
    assert judge(changes).of("autoscaler-of-nothing")
    assert judge({**changes, FIELD: {}}).of("autoscaler-of-nothing") == []


def test_budget_that_drains_spot_nodes_is_refused(judge: Judge) -> None:
    changes = {**KARPENTER, "budget.on_breach": "drain-spot", "cloud.0.interruptions": {}}
    finding = judge(changes).only("karpenter-budget")
    assert finding.field == "budget.on_breach"
    assert "cannot drain sweep of use1" in finding.message
    assert "stop-scale-out" in finding.remedy
    assert "karpenter-budget" not in judge({**changes, FIELD: {}}).rules
    assert "karpenter-budget" not in judge({**changes, "budget.on_breach": "stop-scale-out"}).rules


def test_budget_that_stops_more_groups_than_a_role_has_policies_is_refused(judge: Judge) -> None:
    groups = [
        {"name": f"g{n}", "instance_types": ["g6.xlarge"], "capacity": {"on_demand": {"max": 2}}}
        for n in range(11)
    ]
    changes = {**KARPENTER, "cloud.0.node_groups": groups, "budget.on_breach": "stop-scale-out"}
    assert "stops 11 groups of use1" in judge(changes).only("karpenter-budget").message
    assert "karpenter-budget" not in judge({**changes, "cloud.0.node_groups": groups[1:]}).rules
    assert "karpenter-budget" not in judge({**changes, "budget.on_breach": "notify"}).rules


def test_private_site_cannot_pull_it(judge: Judge) -> None:
    findings = judge({**KARPENTER, "cloud.0.network.nat": "none"}).of("registry-unreachable")
    assert sum("Karpenter from public.ecr.aws" in each.message for each in findings) == 1
    findings = judge({FIELD: {}, "cloud.0.network.nat": "none"}).of("registry-unreachable")
    assert not any("Karpenter" in each.message for each in findings)


@pytest.mark.parametrize("key", ["karpenter.sh/nodepool", "karpenter.k8s.aws/instance-family"])
def test_labels_of_karpenter_are_its_own(judge: Judge, key: str) -> None:
    finding = judge({f"{TRAIN}.labels": {key: "mine"}}).only("label-legal")
    assert "reserved for Kubernetes, EKS, Karpenter or gpufleet" in finding.message
