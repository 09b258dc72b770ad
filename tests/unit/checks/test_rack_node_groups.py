"""Node groups of rack sites with Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checks.fleets import Judge
from tests.unit.checks.test_rack_kubernetes import rack


@pytest.mark.parametrize(
    ("groups", "field", "says"),
    [
        ([{"name": "a", "nodes": "ctl01"}], "[0].nodes", "not GPU nodes of site 'dc1' (ctl01)"),
        (
            [{"name": "a", "nodes": "dgx[001-002]"}, {"name": "b", "nodes": "dgx[002-003]"}],
            "[1].nodes",
            "are also in 'a' (dgx002)",
        ),
        ([{"name": "a", "nodes": "dgx001"}, {"name": "a", "nodes": "dgx002"}], "[1].name", "declared twice"),
        ([{"name": "gpu", "nodes": "dgx001"}], "[0].name", "the 7 nodes without a group"),
    ],
)
def test_groups_with_shared_or_unknown_nodes_are_refused(
    judge: Judge, groups: list[dict[str, Any]], field: str, says: str
) -> None:
    finding = judge(rack(kubernetes={"node_groups": groups})).only("kubernetes-groups")
    assert finding.field == f"onprem[0].kubernetes.node_groups{field}"
    assert says in finding.message


def test_default_group_can_be_declared_with_all_nodes(judge: Judge) -> None:
    groups = [{"name": "gpu", "nodes": "dgx[001-008]"}]
    assert judge(rack(kubernetes={"node_groups": groups})).rules == set()


@pytest.mark.parametrize(
    "group",
    [
        {"labels": {"kubernetes.io/role": "x"}},
        {"labels": {"a b": "x"}},
        {"labels": {"a": ".x"}},
        {"taints": [{"key": "gpufleet.io/x"}]},
        {"taints": [{"key": "a", "value": "b c"}]},
        {"taints": [{"key": "a"}, {"key": "a"}]},
    ],
)
def test_labels_and_taints_that_kubernetes_refuses_are_found(judge: Judge, group: dict[str, Any]) -> None:
    judge(rack(kubernetes={"node_groups": [{"name": "a", "nodes": "dgx001"} | group]})).only(
        "kubernetes-labels"
    )


def test_mps_on_mig_devices_is_refused_and_time_slicing_is_not(judge: Judge) -> None:
    def group(sharing: str) -> dict[str, Any]:
        shared = {"name": "a", "nodes": "dgx001", "gpu_sharing": {sharing: {"replicas": 2}}}
        divided = [{"nodes": "dgx001", "profiles": {"1g.10gb": 7}}]
        return rack(mig=divided, kubernetes={"node_groups": [shared]})

    assert "uses both MPS and MIG" in judge(group("mps")).only("kubernetes-sharing").message
    assert judge(group("time_slicing")).rules == set()
    assert judge({**group("mps"), "onprem.0.mig": []}).rules == set()


@pytest.mark.parametrize(
    ("layout", "field", "says"),
    [
        ({"gpus": [0]}, ".gpus", "only some GPUs of dgx001"),
        ({"profiles": {"1g.10gb": 3, "2g.20gb": 2}}, ".profiles", "instances of 1g.10gb, 2g.20gb"),
        ({"nodes": "dgx[001-002]"}, ".nodes", "1 of "),
    ],
)
def test_group_with_different_mig_layouts_is_refused(
    judge: Judge, layout: dict[str, Any], field: str, says: str
) -> None:
    divided = {"nodes": "dgx001", "profiles": {"1g.10gb": 7}} | layout
    groups = [{"name": "a", "nodes": "dgx001"}]
    finding = judge(rack(mig=[divided], kubernetes={"node_groups": groups})).only("kubernetes-mig")
    assert finding.field == f"onprem[0].mig[0]{field}"
    assert says in finding.message
