"""Inventory variables of kubernetes_gpu: pools as pods see them, guarantees, topology, the fabric."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

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
        {"name": "research", "gpus": 24, "priority": "normal", "host_network": False},
        {"name": "product", "gpus": 8, "priority": "high", "host_network": False},
    ]
    assert found["site"] == "dc1"
    assert nominal(found) == {("research", "gpu"): 18, ("product", "gpu"): 6}
    manager = found["kueue_values"]["controllerManager"]
    assert manager["replicas"] == 1 and "node-role.kubernetes.io/control-plane" in manager["nodeSelector"]
    image = manager["manager"]["image"]
    assert CATALOG.images["kueue", LOCK.kueue].images == (f"{image['repository']}:{image['tag']}",)
    assert [item["kind"] for item in found["priority_policy"]] == [
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ]


def nominal(found: dict[str, Any]) -> dict[tuple[str, str], int]:
    """The nominal quota of each team in each flavor."""
    return {
        (item["metadata"]["name"], flavor["name"]): int(flavor["resources"][0]["nominalQuota"])
        for item in found["queues"]
        if item["kind"] == "ClusterQueue"
        for group in item["spec"]["resourceGroups"]
        for flavor in group["flavors"]
    }


def test_queues_place_pods_by_leaf_where_all_nodes_have_one() -> None:
    switches = [{"name": "leaf1", "tier": "leaf", "nodes": "dgx[001-003]"}]
    fabric = {"kind": "infiniband", "speed": "ndr", "switches": switches}
    (topology,) = [item for item in values(fabric)["queues"] if item["kind"] == "Topology"]
    levels = [level["nodeLabel"] for level in topology["spec"]["levels"]]
    assert levels == [LEAF, "kubernetes.io/hostname"]
    (flavor,) = [item for item in values(fabric)["queues"] if item["kind"] == "ResourceFlavor"]
    assert flavor["spec"]["topologyName"] == topology["metadata"]["name"]
    assert not [item for item in values()["queues"] if item["kind"] == "Topology"]


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
    text = found["kueue_values"]["managerConfig"]["controllerManagerConfigYaml"]
    counted = {
        item["input"]: item["outputs"]["gpufleet.io/gpu-thousandths"]
        for item in yaml.safe_load(text)["resources"]["transformations"]
    }
    assert counted == {"nvidia.com/mig-1g.10gb.shared": "71", "nvidia.com/gpu": "1000"}
    guaranteed = nominal(found)
    assert sum(count for (_, flavor), count in guaranteed.items() if flavor == "gpu") == 16
    assert sum(count for (_, flavor), count in guaranteed.items() if flavor == "notebooks") == 8 * 14


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
