"""NVIDIA's GPU Operator as a pinned Helm release, set up for nodes whose image has the driver."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from gpufleet.components.device_plugins import SharedGpusArgs
from gpufleet.kinds import UNSHARED_GPUS

CHART_REPOSITORY = "https://helm.ngc.nvidia.com/nvidia"
NAMESPACE = "gpu-operator"
CONFIG_MAP = "gpufleet-device-plugin"


def gpu_operator(
    name: str,
    version: str,
    shared: Sequence[SharedGpusArgs],
    taint_keys: Sequence[str],
    opts: pulumi.ResourceOptions,
    *,
    divided: bool = False,
    dcgm: bool = False,
) -> k8s.helm.v3.Release:
    """Deploy the release. EKS's NVIDIA image has driver and container toolkit, so the operator installs
    neither: nodes with two managers of one driver do not become ready.

    `shared` are configurations of its device plugin, which nodes choose by the label
    `nvidia.com/device-plugin.config`. With `divided`, some nodes have a MIG layout: each profile is a
    resource of its own, and the MIG manager may reboot a node, as a GPU of an instance cannot be reset.
    With `dcgm`, each node has a DCGM that others can ask, beside the exporter's own.
    """
    tolerations = [{"key": key, "operator": "Exists"} for key in dict.fromkeys(taint_keys)]
    return k8s.helm.v3.Release(
        f"{name}-gpu-operator",
        name="gpu-operator",
        chart="gpu-operator",
        version=version,
        repository_opts=k8s.helm.v3.RepositoryOptsArgs(repo=CHART_REPOSITORY),
        namespace=NAMESPACE,
        create_namespace=True,
        timeout=900,
        # GPU nodes join and leave with capacity: an update does not wait for them.
        skip_await=True,
        values={
            "driver": {"enabled": False},
            "toolkit": {"enabled": False},
            "daemonsets": {"tolerations": tolerations},
            "node-feature-discovery": {"worker": {"tolerations": tolerations}},
            **(_sharing(shared) if shared else {}),
            **(_MIG if divided else {}),
            **({"dcgm": {"enabled": True}} if dcgm else {}),
        },
        opts=opts,
    )


_MIG: dict[str, Any] = {
    "mig": {"strategy": "mixed"},
    "migManager": {"env": [{"name": "WITH_REBOOT", "value": "true"}]},
}


def _sharing(shared: Sequence[SharedGpusArgs]) -> dict[str, Any]:
    texts = {UNSHARED_GPUS: json.dumps({"version": "v1"}), **{each.name: each.text for each in shared}}
    config = {"create": True, "name": CONFIG_MAP, "default": UNSHARED_GPUS, "data": texts}
    return {"devicePlugin": {"config": config}}
