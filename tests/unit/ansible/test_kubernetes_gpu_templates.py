"""Input of kubernetes_gpu for helm and the API server: one driver, correct counts, no extra features."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from gpufleet.plan.gpu_sharing import SharingKind, config_name, config_text
from tests.unit.ansible.gpu_roles import Role


def config(kind: SharingKind, replicas: int = 1, mig_profile: str | None = None) -> dict[str, str]:
    """A pool's configuration, as in the inventory."""
    return {
        "name": config_name(kind, replicas, mig_profile),
        "text": config_text(kind, replicas, mig_profile),
    }


WHOLE = {
    "name": "train",
    "nodes": ["dgx01", "dgx02"],
    "taints": [],
    "sharing": "none",
    "replicas": 1,
    "mig_profile": "",
    "resource": "nvidia.com/gpu",
    "per_gpu": 1,
    "gpus": 16,
    "config": config("none"),
}
SLICED = WHOLE | {
    "name": "notebooks",
    "nodes": ["dgx03"],
    "taints": [{"key": "example.com/notebooks", "value": "only", "effect": "NoSchedule"}],
    "sharing": "time_slicing",
    "replicas": 4,
    "resource": "nvidia.com/gpu.shared",
    "per_gpu": 4,
    "gpus": 8,
    "config": config("time_slicing", 4),
}
MPS = SLICED | {
    "name": "serve",
    "nodes": ["dgx04"],
    "sharing": "mps",
    "replicas": 2,
    "per_gpu": 2,
    "config": config("mps", 2),
}
MIG = WHOLE | {
    "name": "mig",
    "nodes": ["dgx05"],
    "mig_profile": "1g.10gb",
    "resource": "nvidia.com/mig-1g.10gb",
    "per_gpu": 7,
    "gpus": 8,
}
TEAMS = [
    {"name": "research", "gpus": 12, "priority": "normal"},
    {"name": "product", "gpus": 8, "priority": "high"},
]
VERSIONS = {
    "kubernetes_gpu_helm_version": "4.3.1",
    "kubernetes_gpu_gpu_operator_version": "26.7.0",
    "kubernetes_gpu_network_operator_version": "26.4.0",
    "kubernetes_gpu_kueue_version": "0.19.2",
    "kubernetes_gpu_site": "dc1",
    "kubernetes_gpu_teams": TEAMS,
    "kubernetes_gpu_kueue_values": {"controllerManager": {"replicas": 2}},
    "kubernetes_gpu_network": {
        "pod_network": "10.244.0.0/16",
        "hosts": ["10.90.0.10/31", "10.90.0.21/32"],
        "api": ["10.90.0.10/31"],
        "port": 6443,
    },
}


def role(pools: list[dict[str, Any]] | None = None, **more: Any) -> Role:
    return Role("kubernetes_gpu", **{**VERSIONS, "kubernetes_gpu_pools": pools or [WHOLE], **more})


def releases(**more: Any) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in role(**more).value("kubernetes_gpu__releases")}


def plugin_configs(pools: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    values = releases(pools=pools)["gpu-operator"]["values"]
    config = values["devicePlugin"]["config"]
    assert config["create"] is True and config["default"] in config["data"]
    return {name: yaml.safe_load(text) for name, text in config["data"].items()}


def test_operators_disable_everything_that_the_host_already_has() -> None:
    found = releases()
    values = found["gpu-operator"]["values"]
    for part in ("driver", "toolkit", "dcgm", "dcgmExporter", "migManager", "gds", "gdrcopy", "vgpuManager"):
        assert values[part]["enabled"] is False, part
    objects = role().value("kubernetes_gpu__fabric")
    assert [item["kind"] for item in objects] == ["NicClusterPolicy"]
    assert "ofedDriver" not in objects[0]["spec"]


def test_charts_have_locked_versions_and_one_of_them_brings_discovery() -> None:
    found = releases()
    versions = {name: item["version"] for name, item in found.items()}
    assert versions == {"gpu-operator": "v26.7.0", "network-operator": "26.4.0", "kueue": "0.19.2"}
    assert found["gpu-operator"]["values"]["nfd"]["enabled"] is True
    assert found["network-operator"]["values"]["nfd"]["enabled"] is False
    single = releases(kubernetes_gpu_gpu_operator=False)
    assert single["gpu-operator"]["absent"] is True
    assert single["network-operator"]["values"]["nfd"]["enabled"] is True


def test_kueue_gets_the_values_of_the_inventory() -> None:
    assert releases()["kueue"]["values"] == VERSIONS["kubernetes_gpu_kueue_values"]


def test_all_charts_come_from_the_mirror_if_there_is_one() -> None:
    found = releases(kubernetes_gpu_chart_mirror="http://mirror/rack/charts")
    assert {item["chart"] for item in found.values()} == {
        "http://mirror/rack/charts/gpu-operator-v26.7.0.tgz",
        "http://mirror/rack/charts/network-operator-26.4.0.tgz",
        "http://mirror/rack/charts/kueue-0.19.2.tgz",
    }
    assert not any(item.get("repository") for item in found.values())


def test_each_way_of_sharing_is_a_configuration_with_a_node_label() -> None:
    pools = [WHOLE, SLICED, MPS, MIG]
    configs = plugin_configs(pools)
    assert configs == {
        "default": {"version": "v1"},
        "time-slicing-4": {
            "version": "v1",
            "sharing": {
                "timeSlicing": {
                    "renameByDefault": True,
                    "failRequestsGreaterThanOne": True,
                    "resources": [{"name": "nvidia.com/gpu", "replicas": 4}],
                }
            },
        },
        "mps-2": {
            "version": "v1",
            "sharing": {
                "mps": {"renameByDefault": True, "resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}
            },
        },
    }
    nodes = role(pools).value("kubernetes_gpu_pools | gpufleet.rack.kubernetes_node_objects")
    labels = {item["metadata"]["name"]: item["metadata"]["labels"] for item in nodes}
    key = "nvidia.com/device-plugin.config"
    assert labels["dgx03"] == {key: "time-slicing-4"} and labels["dgx04"] == {key: "mps-2"}
    assert labels["dgx01"] == labels["dgx05"] == {}


def test_shares_of_a_mig_device_are_named_after_it() -> None:
    both = MIG | {
        "sharing": "time_slicing",
        "replicas": 2,
        "resource": "nvidia.com/mig-1g.10gb.shared",
        "per_gpu": 14,
        "config": config("time_slicing", 2, "1g.10gb"),
    }
    shared = plugin_configs([both])["time-slicing-2-1g.10gb"]["sharing"]["timeSlicing"]
    assert shared["resources"] == [{"name": "nvidia.com/mig-1g.10gb", "replicas": 2}]


def test_gpu_services_tolerate_the_taints_of_their_node_group() -> None:
    values = releases(pools=[WHOLE, SLICED])["gpu-operator"]["values"]
    taint = {"key": "example.com/notebooks", "operator": "Exists", "effect": "NoSchedule"}
    assert taint in values["daemonsets"]["tolerations"]
    assert taint in values["node-feature-discovery"]["worker"]["tolerations"]
    assert taint in role([SLICED]).value("kubernetes_gpu__fabric")[0]["spec"]["tolerations"]


@pytest.mark.parametrize(
    ("fabric", "link", "interfaces"),
    [("infiniband", "infiniband", []), ("roce", "ether", []), ("roce", "ether", ["ens1", "ens2"])],
)
def test_pods_share_adapters_of_the_link_type_of_the_fabric(fabric, link, interfaces) -> None:
    (policy,) = role(kubernetes_gpu_fabric_kind=fabric, kubernetes_gpu_interfaces=interfaces).value(
        "kubernetes_gpu__fabric"
    )
    (pool,) = json.loads(policy["spec"]["rdmaSharedDevicePlugin"]["config"])["configList"]
    assert pool["selectors"]["linkTypes"] == [link]
    assert pool["selectors"].get("ifNames", []) == interfaces
    assert policy["spec"]["rdmaSharedDevicePlugin"]["version"] == "network-operator-v26.4.0"


def test_each_roce_interface_is_a_rail_of_virtual_functions() -> None:
    more: dict[str, Any] = {
        "kubernetes_gpu_fabric_kind": "roce",
        "kubernetes_gpu_interfaces": ["ens1", "ens2"],
        "kubernetes_gpu_virtual_functions": 8,
        "kubernetes_gpu_mtu": 9000,
    }
    found = role(**more).value("kubernetes_gpu__fabric")
    policies = [item["spec"] for item in found if item["kind"] == "SriovNetworkNodePolicy"]
    chosen = [(item["resourceName"], item["nicSelector"]["pfNames"]) for item in policies]
    assert chosen == [("rail0", ["ens1"]), ("rail1", ["ens2"])]
    assert all(item["isRdma"] and item["numVfs"] == 8 and item["mtu"] == 9000 for item in policies)
    assert "rdmaSharedDevicePlugin" not in found[0]["spec"] and "ofedDriver" not in found[0]["spec"]
    assert releases(**more)["network-operator"]["values"]["sriovNetworkOperator"]["enabled"] is True


def test_namespace_has_the_gpus_of_its_team_and_no_higher_priority() -> None:
    found = role([WHOLE, SLICED]).value("kubernetes_gpu__base")
    quotas = {
        (item["metadata"]["namespace"], item["metadata"]["name"]): item["spec"]
        for item in found
        if item["kind"] == "ResourceQuota"
    }
    assert quotas["research", "gpus"]["hard"] == {
        "requests.nvidia.com/gpu": "12",
        "requests.nvidia.com/gpu.shared": "48",
    }

    def refused(team: str) -> list[str]:
        spec = quotas[team, "no-higher-priority"]
        assert spec["hard"] == {"pods": "0"}
        return list(spec["scopeSelector"]["matchExpressions"][0]["values"])

    system = ["system-cluster-critical", "system-node-critical"]
    assert refused("research") == ["gpufleet-high", *system]
    assert refused("product") == system


def test_priority_classes_and_values_equal_those_of_the_cloud() -> None:
    from ansible_collections.gpufleet.rack.plugins.filter import kubernetes_teams

    from gpufleet import kinds

    assert kubernetes_teams.PRIORITIES == kinds.PRIORITIES
    assert kubernetes_teams.SYSTEM_PRIORITIES == kinds.SYSTEM_PRIORITIES
    assert kubernetes_teams.TEAM_LABEL == kinds.TEAM_LABEL
    assert kubernetes_teams.PRIORITY_LABEL == kinds.PRIORITY_LABEL
    for level in kubernetes_teams.PRIORITIES:
        assert kubernetes_teams.class_name(level) == kinds.priority_class(level)
