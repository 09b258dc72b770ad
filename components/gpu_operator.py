"""NVIDIA's GPU Operator as a pinned Helm release, set up for nodes whose image has the driver."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as k8s

CHART_REPOSITORY = "https://helm.ngc.nvidia.com/nvidia"
NAMESPACE = "gpu-operator"


def gpu_operator(
    name: str, version: str, taint_keys: Sequence[str], opts: pulumi.ResourceOptions
) -> k8s.helm.v3.Release:
    """Deploy the release. EKS's NVIDIA image has driver and container toolkit, so the operator installs
    neither: nodes with two managers of one driver do not become ready.
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
        },
        opts=opts,
    )
