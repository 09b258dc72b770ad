"""Node counts."""

from __future__ import annotations

import pytest

from tests.unit.checks.fleets import Judge

CAPACITY = "cloud.0.node_groups.0.capacity"


def test_max_below_min_is_refused(judge: Judge) -> None:
    finding = judge({CAPACITY: {"on_demand": {"min": 4, "max": 2}}}).only("node-bounds")
    assert finding.field == "cloud[0].node_groups[0].capacity.on_demand.max"
    assert finding.value == 2
    assert "max: 4" in finding.remedy


@pytest.mark.parametrize("desired", [0, 3])
def test_desired_outside_min_and_max_is_refused(judge: Judge, desired: int) -> None:
    finding = judge({CAPACITY: {"spot": {"min": 1, "max": 2, "desired": desired}}}).only("node-bounds")
    assert finding.field.endswith("spot.desired")
    assert "1 to 2" in finding.remedy


@pytest.mark.parametrize("desired", [1, 2])
def test_desired_at_min_or_max_passes(judge: Judge, desired: int) -> None:
    assert judge({CAPACITY: {"on_demand": {"min": 1, "max": 2, "desired": desired}}}).rules == set()


def test_system_nodes_with_max_below_min_are_refused(judge: Judge) -> None:
    finding = judge({"cloud.0.kubernetes.system_nodes": {"min": 3, "max": 2}}).only("node-bounds")
    assert finding.field == "cloud[0].kubernetes.system_nodes.max"
    for nodes in ({"min": 3, "max": 3}, {"min": 1, "max": 1}):
        assert judge({"cloud.0.kubernetes.system_nodes": nodes}).rules == set()


def test_cluster_without_system_nodes_is_refused(judge: Judge) -> None:
    nodes = {"min": 0, "max": 0}
    changes = {"cloud.0.kubernetes.system_nodes": nodes, "cloud.0.kubernetes.access": "phased"}
    judge(changes).only("node-bounds")


def test_empty_group_is_refused_where_eks_refuses_it(judge: Judge) -> None:
    finding = judge({"cloud.0.node_groups.3.capacity": {"spot": {"max": 0}}}).only("node-group-empty")
    assert "EKS" in finding.message


def test_empty_group_is_a_warning_elsewhere(judge: Judge) -> None:
    reported = judge(
        {
            "cloud.0.scheduler": "slurm",
            "cloud.0.kubernetes": None,
            "cloud.0.node_groups.3.capacity": {"spot": {"max": 0}},
        }
    )
    assert reported.rules == {"node-group-empty", "slurm-cloud-unconnected"}
    (finding,) = reported.of("node-group-empty")
    assert finding.severity == "warning" and "EKS" not in finding.message


@pytest.mark.parametrize("group", [1, 2])
def test_reservation_of_zero_nodes_is_refused(judge: Judge, group: int) -> None:
    kind = {1: "capacity_block", 2: "odcr"}[group]
    finding = judge({f"cloud.0.node_groups.{group}.capacity.reserved.{kind}.nodes": 0}).only(
        "node-group-empty"
    )
    assert finding.field.endswith(f"{kind}.nodes")
