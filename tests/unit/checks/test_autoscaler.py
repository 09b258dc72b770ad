"""The autoscaler of a site: something to scale, and time to start a node."""

from __future__ import annotations

import pytest

from tests.unit.checks.fleets import Judge

FIELD = "cloud.0.kubernetes.autoscaler"
FIXED = {"on_demand": {"min": 1, "max": 1}}
NOTHING_GROWS = {
    "cloud.0.node_groups.0.capacity": FIXED,
    "cloud.0.node_groups.3.capacity": FIXED,
    "cloud.0.kubernetes.system_nodes": {"min": 2, "max": 2},
}


def test_defaults_pass(judge: Judge) -> None:
    assert judge({FIELD: {}}).rules == set()
    assert judge({FIELD: {"kind": "none"}}).rules == set()
    assert judge({FIELD: {"expander": "priority"}}).rules == set()


@pytest.mark.parametrize("written", ["1 s", "59 s"])
def test_nodes_do_not_end_within_a_minute(judge: Judge, written: str) -> None:
    finding = judge({FIELD: {"scale_down_after": written}}).only("scale-down-after")
    assert finding.field == "cloud[0].kubernetes.autoscaler.scale_down_after"
    assert finding.severity == "error"
    assert f"after {written} without work" in finding.message
    assert "write '1 min' or more" in finding.remedy


def test_duration_does_not_matter_where_no_node_ends(judge: Judge) -> None:
    assert judge({FIELD: {"scale_down_after": "1 s", "scale_down": False}}).rules == set()
    assert judge({FIELD: {"scale_down_after": "1 s", "kind": "none"}}).rules == set()


def test_site_whose_sizes_are_all_fixed_has_nothing_to_scale(judge: Judge) -> None:
    (finding,) = judge({FIELD: {}, **NOTHING_GROWS}).of("autoscaler-of-nothing")
    assert (finding.severity, finding.value) == ("warning", "use1")
    assert "no node group of site 'use1'" in finding.message
    fixed_spot = {"cloud.0.node_groups.3.capacity": {"spot": {"min": 1, "max": 1}}}
    assert "autoscaler-of-nothing" in judge({FIELD: {}, **NOTHING_GROWS, **fixed_spot}).rules


@pytest.mark.parametrize(
    "capacity",
    [
        {"spot": {"min": 1, "max": 2}},
        {"spot": {"min": 1, "max": 1, "on_shortage": ["on-demand"]}},
    ],
)
def test_one_group_that_can_change_is_enough(judge: Judge, capacity: dict[str, object]) -> None:
    changes = {FIELD: {}, **NOTHING_GROWS, "cloud.0.node_groups.3.capacity": capacity}
    assert "autoscaler-of-nothing" not in judge(changes).rules


def test_groups_of_an_order_are_not_the_autoscalers(judge: Judge) -> None:
    order = {"name": "drawn", "nodes": 1, "groups": ["sweep"]}
    changes = {FIELD: {}, **NOTHING_GROWS, "cloud.0.ordered_capacity": [order]}
    changes["cloud.0.node_groups.3.capacity"] = {"spot": {"min": 0, "max": 4}}
    assert "autoscaler-of-nothing" in judge(changes).rules


def test_private_site_cannot_pull_it(judge: Judge) -> None:
    changes = {FIELD: {}, "cloud.0.network.nat": "none"}
    messages = [each.message for each in judge(changes).of("registry-unreachable")]
    assert sum("registry.k8s.io" in each for each in messages) == 1
    changes = {FIELD: {"kind": "none"}, "cloud.0.network.nat": "none"}
    messages = [each.message for each in judge(changes).of("registry-unreachable")]
    assert not any("registry.k8s.io" in each for each in messages)


def test_slurm_site_has_none(judge: Judge) -> None:
    changes = {FIELD: {"kind": "cluster-autoscaler"}, **NOTHING_GROWS, "cloud.0.scheduler": "slurm"}
    assert "autoscaler-of-nothing" not in judge(changes).rules


def test_system_nodes_that_can_change_are_enough(judge: Judge) -> None:
    changes = {FIELD: {}, **NOTHING_GROWS, "cloud.0.kubernetes.system_nodes": {"min": 2, "max": 3}}
    assert "autoscaler-of-nothing" not in judge(changes).rules


@pytest.mark.parametrize(
    ("kind", "pools", "found"),
    [
        ("karpenter", "node-pools", False),
        ("karpenter", "node-groups", True),
        ("cluster-autoscaler", "node-pools", True),
    ],
)
def test_only_karpenter_scales_reserved_nodes(judge: Judge, kind: str, pools: str, found: bool) -> None:
    changes = {FIELD: {"kind": kind, "reserved_nodes": pools}, **NOTHING_GROWS}
    assert ("autoscaler-of-nothing" in judge(changes).rules) is found
