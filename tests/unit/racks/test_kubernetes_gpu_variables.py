"""Inventory variables of kubernetes_gpu: pools as pods see them, guarantees, topology, the fabric."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.catalog import load_catalog
from gpufleet.plan.models import FabricPlan, TeamPlan
from gpufleet.plan.rack import plan_rack
from gpufleet.racks.variables import fleet_values, site_values
from gpufleet.racks.variables.kubernetes_gpu import topology_levels
from tests.unit.racks.conftest import declared_site, rack

CATALOG = load_catalog()
LOCK = CATALOG.lock("2026.11")


TEAMS = (TeamPlan("research", 24, "normal"), TeamPlan("product", 8, "high"))


def values(
    fabric: dict[str, Any] | None = None, mig: list[dict[str, Any]] | None = None, **kubernetes: Any
) -> dict[str, Any]:
    """The role's variables of a site of three nodes with eight GPUs each."""
    more = {} if fabric is None else {"fabric": fabric}
    declared = plan_rack(declared_site(scheduler="kubernetes", kubernetes=kubernetes, mig=mig, **more))
    kind = "infiniband" if fabric is None else fabric["kind"]
    site = rack(
        scheduler="kubernetes", fabric=FabricPlan(kind, "ndr", "rail-optimized"), rack=declared, teams=TEAMS
    )
    return {
        name.removeprefix("kubernetes_gpu_"): value
        for name, value in site_values(site, CATALOG, LOCK).items()
        if name.startswith("kubernetes_gpu_")
    }


def test_nodes_without_groups_are_one_pool_of_whole_gpus() -> None:
    found = values()
    (pool,) = found["pools"]
    assert (pool["name"], pool["resource"], pool["per_gpu"], pool["gpus"]) == ("gpu", "nvidia.com/gpu", 1, 24)
    assert pool["nodes"] == ["dgx001", "dgx002", "dgx003"]
    assert found["teams"] == [
        {
            "name": "research",
            "gpus": 24,
            "priority": "normal",
            "guaranteed": {"gpu": 18},
            "host_network": False,
        },
        {"name": "product", "gpus": 8, "priority": "high", "guaranteed": {"gpu": 6}, "host_network": False},
    ]
    assert found["members"] == 1 and found["site"] == "dc1"


def test_mig_and_sharing_multiply_and_each_part_is_counted() -> None:
    group = {
        "name": "notebooks",
        "nodes": "dgx003",
        "gpu_sharing": {"time_slicing": {"replicas": 2}},
        "taints": [{"key": "example.com/a", "value": "b", "effect": "NoSchedule"}],
    }
    found = values(mig=[{"nodes": "dgx003", "profiles": {"1g.10gb": 7}}], node_groups=[group])
    pools = {pool["name"]: pool for pool in found["pools"]}
    pool = pools["notebooks"]
    assert (pool["resource"], pool["per_gpu"], pool["gpus"]) == ("nvidia.com/mig-1g.10gb.shared", 14, 8)
    assert pool["taints"] == [{"key": "example.com/a", "value": "b", "effect": "NoSchedule"}]
    assert pools["gpu"]["gpus"] == 16
    assert found["thousandths"] == {"nvidia.com/mig-1g.10gb.shared": 71, "nvidia.com/gpu": 1000}
    guaranteed = [team["guaranteed"] for team in found["teams"]]
    assert sum(item["gpu"] for item in guaranteed) == 16
    assert sum(item["notebooks"] for item in guaranteed) == 8


def test_virtual_functions_need_roce_with_known_interfaces() -> None:
    roce = {"kind": "roce", "speed": "400gbe"}
    assert values()["virtual_functions"] == values(roce)["virtual_functions"] == 0
    named = values(roce | {"interfaces": ["ens1", "ens2"]})
    assert (named["virtual_functions"], named["interfaces"]) == (8, ["ens1", "ens2"])
    assert named["mtu"] == 9000 and "mtu" not in values()


def test_slurm_site_has_no_kubernetes_gpu_variables() -> None:
    names = site_values(rack(), CATALOG, LOCK)
    assert not [name for name in names if name.startswith("kubernetes_")]


def test_versions_are_those_of_the_software_channel() -> None:
    found = fleet_values(LOCK)
    assert found["kubernetes_gpu_gpu_operator_version"] == LOCK.gpu_operator
    assert found["kubernetes_gpu_network_operator_version"] == LOCK.network_operator
    assert (found["kubernetes_gpu_kueue_version"], found["kubernetes_gpu_helm_version"]) == (
        LOCK.kueue,
        LOCK.helm,
    )


LEAF, RACK = "gpufleet.io/leaf", "gpufleet.io/rack"


@pytest.mark.parametrize(
    ("labels", "levels"),
    [
        ({}, []),
        ({"a": {}}, []),
        ({"a": {LEAF: "l1"}, "b": {}}, []),
        ({"a": {LEAF: "l1"}, "b": {LEAF: "l2"}}, [LEAF]),
        # Racks inside of leaves, as in a SuperPOD; leaves inside of racks; and neither.
        (
            {"a": {LEAF: "l1", RACK: "r1"}, "b": {LEAF: "l1", RACK: "r2"}, "c": {LEAF: "l2", RACK: "r3"}},
            [LEAF, RACK],
        ),
        (
            {"a": {LEAF: "l1", RACK: "r1"}, "b": {LEAF: "l2", RACK: "r1"}, "c": {LEAF: "l3", RACK: "r2"}},
            [RACK, LEAF],
        ),
        (
            {
                "a": {LEAF: "l1", RACK: "r1"},
                "b": {LEAF: "l1", RACK: "r2"},
                "c": {LEAF: "l2", RACK: "r1"},
                "d": {LEAF: "l2", RACK: "r3"},
            },
            [LEAF],
        ),
    ],
)
def test_topology_levels_are_a_tree_of_labels_on_all_nodes(
    labels: dict[str, dict[str, str]], levels: list[str]
) -> None:
    assert topology_levels(labels) == ([*levels, "kubernetes.io/hostname"] if levels else [])
