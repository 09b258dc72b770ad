"""Values of NVIDIA's operators and related objects, from the inventory of a site."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Object = dict[str, Any]

CONFIG_LABEL = "nvidia.com/device-plugin.config"
"""Node label that selects the device plugin configuration (GPU Operator, "Time-slicing GPUs")."""

UNSHARED = "default"
CONFIG_MAP = "gpufleet-device-plugin"
NETWORK_NAMESPACE = "network-operator"
MELLANOX = "15b3"
RDMA_RESOURCE = "hca_shared_devices"
RDMA_PODS = 1000
"""Maximum number of pods of a node that share its adapters: the plugin limits nothing else."""

CONTROL_PLANE = {
    "key": "node-role.kubernetes.io/control-plane",
    "operator": "Exists",
    "effect": "NoSchedule",
}


def tolerations_of(pools: Sequence[Mapping[str, Any]]) -> list[Object]:
    """Tolerations of a service that runs on every GPU node."""
    found = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    for pool in pools:
        for taint in pool["taints"]:
            wanted = {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]}
            found += [] if wanted in found else [wanted]
    return found


def gpu_operator_values(pools: Sequence[Mapping[str, Any]]) -> Object:
    """Values of the GPU Operator chart: everything that the host already has is disabled.

    Roles of the host install driver, container toolkit, DCGM with its exporter, MIG, GDRCopy and GPUDirect
    Storage; with two owners of one driver, nodes never become ready.
    """
    tolerations = tolerations_of(pools)
    configs = {UNSHARED: json.dumps({"version": "v1"})}
    configs |= {pool["config"]["name"]: pool["config"]["text"] for pool in pools}
    return {
        "driver": {"enabled": False},
        "toolkit": {"enabled": False},
        "dcgm": {"enabled": False},
        "dcgmExporter": {"enabled": False},
        "migManager": {"enabled": False},
        "gds": {"enabled": False},
        "gdrcopy": {"enabled": False},
        "vgpuManager": {"enabled": False},
        "sandboxWorkloads": {"enabled": False},
        # containerd gives pods their GPUs; only the operator's own run with NVIDIA's runtime.
        "cdi": {"enabled": True},
        "operator": {"runtimeClass": "nvidia"},
        # Each MIG profile is a separate resource; other GPUs keep their resource.
        "mig": {"strategy": "mixed"},
        "devicePlugin": {
            "config": {"create": True, "name": CONFIG_MAP, "default": UNSHARED, "data": configs},
        },
        "daemonsets": {"tolerations": tolerations},
        "nfd": {"enabled": True},
        "node-feature-discovery": {"worker": {"tolerations": [CONTROL_PLANE, *tolerations]}},
    }


def network_operator_values(
    pools: Sequence[Mapping[str, Any]], *, virtual_functions: bool = False, discovery: bool = True
) -> Object:
    """Values of the Network Operator chart. `discovery`: whether it installs node feature discovery."""
    tolerations = tolerations_of(pools)
    values: Object = {
        "nfd": {"enabled": discovery, "deployNodeFeatureRules": True},
        "sriovNetworkOperator": {"enabled": virtual_functions},
        "maintenanceOperator": {"enabled": False},
        "operator": {"ofedDriver": {"initContainer": {"enable": False}}},
    }
    if discovery:
        values["node-feature-discovery"] = {"worker": {"tolerations": [CONTROL_PLANE, *tolerations]}}
    return values


def rdma_objects(
    pools: Sequence[Mapping[str, Any]],
    *,
    version: str,
    fabric: str,
    interfaces: Sequence[str] = (),
    virtual_functions: int = 0,
    mtu: int = 0,
    ipam: str = "",
) -> list[Object]:
    """Network objects that give pods the fabric, without an OFED driver, since the host has one.

    InfiniBand needs no address: pods of a node share all adapters (`rdma/hca_shared_devices`).
    RoCE needs one: a pod gets a virtual function of each interface, `nvidia.com/rail<n>`, and its network.
    Without virtual functions pods share the adapters on RoCE too, and must use the host network.
    """
    image = {"repository": "nvcr.io/nvidia/mellanox", "version": f"network-operator-v{version}"}
    spec: Object = {"tolerations": tolerations_of(pools)}
    if not virtual_functions:
        selectors: Object = {
            "vendors": [MELLANOX],
            "linkTypes": ["infiniband" if fabric == "infiniband" else "ether"],
        }
        selectors |= {"ifNames": list(interfaces)} if interfaces else {}
        pool = {"resourceName": RDMA_RESOURCE, "rdmaHcaMax": RDMA_PODS, "selectors": selectors}
        config = json.dumps({"configList": [pool]})
        spec["rdmaSharedDevicePlugin"] = {"image": "k8s-rdma-shared-dev-plugin", **image, "config": config}
    else:
        spec["secondaryNetwork"] = {
            "cniPlugins": {"image": "plugins", **image},
            "multus": {"image": "multus-cni", **image},
        }
    found: list[Object] = [
        {
            "apiVersion": "mellanox.com/v1alpha1",
            "kind": "NicClusterPolicy",
            "metadata": {"name": "nic-cluster-policy"},
            "spec": spec,
        }
    ]
    if virtual_functions:
        for rail, interface in enumerate(interfaces):
            found += _rail(rail, interface, virtual_functions, mtu, ipam)
    return found


def _rail(rail: int, interface: str, virtual_functions: int, mtu: int, ipam: str) -> list[Object]:
    """Virtual functions of one interface on every GPU node, and their network."""
    metadata = {"name": f"rail-{rail}", "namespace": NETWORK_NAMESPACE}
    policy: Object = {
        "resourceName": f"rail{rail}",
        "nodeSelector": {"nvidia.com/gpu.present": "true"},
        "numVfs": virtual_functions,
        "nicSelector": {"vendor": MELLANOX, "pfNames": [interface]},
        "deviceType": "netdevice",
        "linkType": "eth",
        "isRdma": True,
    }
    policy |= {"mtu": mtu} if mtu else {}
    network: Object = {"resourceName": f"rail{rail}", "networkNamespace": "default"}
    network |= {"ipam": ipam} if ipam else {}
    api = "sriovnetwork.openshift.io/v1"
    return [
        {"apiVersion": api, "kind": "SriovNetworkNodePolicy", "metadata": metadata, "spec": policy},
        {"apiVersion": api, "kind": "SriovNetwork", "metadata": metadata, "spec": network},
    ]


def node_objects(pools: Sequence[Mapping[str, Any]]) -> list[Object]:
    """Nodes with the label of their device plugin configuration; nodes without it use the default.

    Includes nodes that no longer need the label, so that it is removed.
    """
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node, "labels": {} if name == UNSHARED else {CONFIG_LABEL: name}},
        }
        for pool in pools
        for node, name in ((node, pool["config"]["name"]) for node in pool["nodes"])
    ]


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {
            "gpu_operator_values": gpu_operator_values,
            "network_operator_values": network_operator_values,
            "rdma_objects": rdma_objects,
            "kubernetes_node_objects": node_objects,
        }
