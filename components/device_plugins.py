"""NVIDIA and EFA device plugins as DaemonSets, which make GPUs and EFA devices schedulable.

Plain manifests with pinned images: a preview shows every field, and nothing is fetched from a chart
repository during a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from gpufleet.components.eks_registries import eks_registry
from gpufleet.components.plugin_daemon_set import (
    PLUGINS,
    host_path,
    plugin_daemon_set,
    requirement,
    small,
)
from gpufleet.components.pod_security import unprivileged
from gpufleet.kinds import GPU_SHARING_LABEL

GPU_NODE_LABEL = "gpufleet.io/gpu"
"""The label of GPU nodes; its value is the GPU's name."""

EFA_NODE_LABEL = "gpufleet.io/efa"
"""The label of nodes with EFA devices."""

NVIDIA_IMAGE = "nvcr.io/nvidia/k8s-device-plugin"

EFA_IMAGE = "eks/aws-efa-k8s-device-plugin:v0.5.20"
"""Chart 0.5.30 of aws/eks-charts, August 2026; pulled from EKS's own registry of the region."""

NEURON_TOOLS = "/opt/aws/neuron/"
"""Where a node's image has the tools that list its Neuron devices."""

_CONFIG_FOLDER, _CONFIG_FILE = "/config", "config.yaml"


@dataclass(frozen=True, kw_only=True)
class SharedGpusArgs:
    """A configuration of NVIDIA's device plugin for GPUs that pods share: its name and its text (YAML)."""

    name: str
    text: str


def nvidia_device_plugins(
    name: str,
    version: str,
    shared: Sequence[SharedGpusArgs],
    taint_keys: Sequence[str],
    labels: Mapping[str, str],
    images: Mapping[str, str],
    opts: pulumi.ResourceOptions,
) -> None:
    """Deploy NVIDIA's plugin on every node with a GPU: one DaemonSet for whole GPUs, and one for each
    configuration, on the nodes with its name as `gpufleet.io/gpu-sharing`. The node's image has driver and
    container toolkit."""
    image = images.get(NVIDIA_IMAGE, f"{NVIDIA_IMAGE}:{version}")
    whole = requirement(GPU_SHARING_LABEL, "DoesNotExist")
    plugin_daemon_set(
        f"{name}-nvidia-device-plugin",
        "nvidia-device-plugin",
        [requirement(GPU_NODE_LABEL), *([whole] if shared else [])],
        _nvidia_container(image),
        [host_path("device-plugins", PLUGINS)],
        taint_keys,
        labels,
        opts,
    )
    for each in shared:
        app = f"nvidia-device-plugin-{each.name}"
        config = k8s.core.v1.ConfigMap(
            f"{name}-{app}",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=app, namespace="kube-system", labels=labels),
            data={_CONFIG_FILE: each.text},
            opts=opts,
        )
        mounted = k8s.core.v1.ConfigMapVolumeSourceArgs(name=config.metadata.name)
        plugin_daemon_set(
            f"{name}-{app}",
            app,
            [requirement(GPU_NODE_LABEL), requirement(GPU_SHARING_LABEL, "In", [each.name])],
            _nvidia_container(image, config="config"),
            [
                host_path("device-plugins", PLUGINS),
                k8s.core.v1.VolumeArgs(name="config", config_map=mounted),
            ],
            taint_keys,
            labels,
            opts,
        )


def _nvidia_container(image: str, *, config: str = "") -> k8s.core.v1.ContainerArgs:
    """Return the plugin's container; `config` is the volume with its configuration."""
    environment = {
        # The plugin must not crash-loop on a node whose driver is not loaded yet.
        "FAIL_ON_INIT_ERROR": "false",
        **({"CONFIG_FILE": f"{_CONFIG_FOLDER}/{_CONFIG_FILE}"} if config else {}),
    }
    mounts = {"device-plugins": PLUGINS, **({config: _CONFIG_FOLDER} if config else {})}
    return k8s.core.v1.ContainerArgs(
        name="nvidia-device-plugin",
        image=image,
        env=[k8s.core.v1.EnvVarArgs(name=key, value=value) for key, value in environment.items()],
        resources=small(),
        security_context=unprivileged(read_only=False),
        volume_mounts=[
            k8s.core.v1.VolumeMountArgs(
                name=volume, mount_path=path, read_only=True if volume == config else None
            )
            for volume, path in mounts.items()
        ],
    )


def efa_device_plugins(
    name: str,
    region: str,
    taint_keys: Sequence[str],
    labels: Mapping[str, str],
    images: Mapping[str, str],
    opts: pulumi.ResourceOptions,
    *,
    neuron_label: str | None = None,
) -> None:
    """Deploy AWS's plugin on every node with EFA devices; pods request `vpc.amazonaws.com/efa`.

    `neuron_label` is that of nodes with Neuron devices, if there are any. A second DaemonSet runs there: to
    allocate the EFA devices nearest to a pod's Neuron devices it reads these, and has to be privileged
    (github.com/aws/eks-charts/pull/1245; AWS's chart is privileged everywhere).
    """
    image = images.get(EFA_IMAGE) or f"{eks_registry(region, EFA_IMAGE)}/{EFA_IMAGE}"
    paths = {"device-plugins": PLUGINS, "infiniband": "/dev/infiniband"}

    def deploy(app: str, neuron: str | None, context: k8s.core.v1.SecurityContextArgs) -> None:
        mounts = {**paths, **({"neuron-tools": NEURON_TOOLS} if neuron == "Exists" else {})}
        plugin_daemon_set(
            f"{name}-{app}",
            app,
            [
                requirement(EFA_NODE_LABEL),
                *([requirement(neuron_label, neuron)] if neuron_label and neuron else []),
            ],
            k8s.core.v1.ContainerArgs(
                name="efa-device-plugin",
                image=image,
                resources=small(),
                security_context=context,
                volume_mounts=[
                    k8s.core.v1.VolumeMountArgs(name=volume, mount_path=path)
                    for volume, path in mounts.items()
                ],
            ),
            [host_path(volume, path, create=path == NEURON_TOOLS) for volume, path in mounts.items()],
            taint_keys,
            labels,
            opts,
            host_network=True,
        )

    deploy("efa-device-plugin", "DoesNotExist" if neuron_label else None, unprivileged(read_only=False))
    if neuron_label:
        privileged = k8s.core.v1.SecurityContextArgs(privileged=True, run_as_user=0)
        deploy("efa-device-plugin-neuron", "Exists", privileged)
