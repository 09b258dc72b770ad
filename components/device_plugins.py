"""NVIDIA and EFA device plugins as DaemonSets, which make GPUs and EFA devices schedulable.

Plain manifests with pinned images: a preview shows every field, and nothing is fetched from a chart
repository during a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_kubernetes as k8s

from gpufleet.components.eks_registries import eks_registry
from gpufleet.components.plugin_daemon_set import (
    PLUGINS,
    host_path,
    plugin_daemon_set,
    small,
)
from gpufleet.components.pod_security import unprivileged

GPU_NODE_LABEL = "gpufleet.io/gpu"
"""The label of GPU nodes; its value is the GPU's name."""

EFA_NODE_LABEL = "gpufleet.io/efa"
"""The label of nodes with EFA devices."""

NVIDIA_IMAGE = "nvcr.io/nvidia/k8s-device-plugin"

EFA_IMAGE = "eks/aws-efa-k8s-device-plugin:v0.5.20"
"""Chart 0.5.30 of aws/eks-charts, August 2026; pulled from EKS's own registry of the region."""


def nvidia_device_plugin(
    name: str,
    version: str,
    taint_keys: Sequence[str],
    labels: Mapping[str, str],
    images: Mapping[str, str],
    opts: pulumi.ResourceOptions,
) -> k8s.apps.v1.DaemonSet:
    """Deploy NVIDIA's plugin on every node with a GPU. The node's image has driver and container toolkit."""
    container = k8s.core.v1.ContainerArgs(
        name="nvidia-device-plugin",
        image=images.get(NVIDIA_IMAGE, f"{NVIDIA_IMAGE}:{version}"),
        env=[
            # The plugin must not crash-loop on a node whose driver is not loaded yet.
            k8s.core.v1.EnvVarArgs(name="FAIL_ON_INIT_ERROR", value="false"),
        ],
        resources=small(),
        security_context=unprivileged(read_only=False),
        volume_mounts=[k8s.core.v1.VolumeMountArgs(name="device-plugins", mount_path=PLUGINS)],
    )
    return plugin_daemon_set(
        f"{name}-nvidia-device-plugin",
        "nvidia-device-plugin",
        GPU_NODE_LABEL,
        container,
        [host_path("device-plugins", PLUGINS)],
        taint_keys,
        labels,
        opts,
    )


def efa_device_plugin(
    name: str,
    region: str,
    taint_keys: Sequence[str],
    labels: Mapping[str, str],
    images: Mapping[str, str],
    opts: pulumi.ResourceOptions,
) -> k8s.apps.v1.DaemonSet:
    """Deploy AWS's plugin on every node with EFA devices; pods request `vpc.amazonaws.com/efa`."""
    image = images.get(EFA_IMAGE) or f"{eks_registry(region, EFA_IMAGE)}/{EFA_IMAGE}"
    container = k8s.core.v1.ContainerArgs(
        name="efa-device-plugin",
        image=image,
        resources=small(),
        security_context=unprivileged(read_only=False),
        volume_mounts=[
            k8s.core.v1.VolumeMountArgs(name="device-plugins", mount_path=PLUGINS),
            k8s.core.v1.VolumeMountArgs(name="infiniband", mount_path="/dev/infiniband"),
        ],
    )
    return plugin_daemon_set(
        f"{name}-efa-device-plugin",
        "efa-device-plugin",
        EFA_NODE_LABEL,
        container,
        [host_path("device-plugins", PLUGINS), host_path("infiniband", "/dev/infiniband")],
        taint_keys,
        labels,
        opts,
        host_network=True,
    )
