"""NVIDIA and EFA device plugins as DaemonSets, which make GPUs and EFA devices schedulable.

Plain manifests with pinned images: a preview shows every field, and nothing is fetched from a chart
repository during a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_kubernetes as k8s

from gpufleet.components.eks_registries import eks_registry

GPU_NODE_LABEL = "gpufleet.io/gpu"
"""The label of GPU nodes; its value is the GPU's name."""

EFA_NODE_LABEL = "gpufleet.io/efa"
"""The label of nodes with EFA devices."""

NVIDIA_IMAGE = "nvcr.io/nvidia/k8s-device-plugin"

EFA_IMAGE = "eks/aws-efa-k8s-device-plugin:v0.5.20"
"""Chart 0.5.30 of aws/eks-charts, August 2026; pulled from EKS's own registry of the region."""

_PLUGINS = "/var/lib/kubelet/device-plugins"


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
        resources=_small(),
        security_context=_unprivileged(),
        volume_mounts=[k8s.core.v1.VolumeMountArgs(name="device-plugins", mount_path=_PLUGINS)],
    )
    return _daemon_set(
        f"{name}-nvidia-device-plugin",
        "nvidia-device-plugin",
        GPU_NODE_LABEL,
        container,
        [_host_path("device-plugins", _PLUGINS)],
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
        resources=_small(),
        security_context=_unprivileged(),
        volume_mounts=[
            k8s.core.v1.VolumeMountArgs(name="device-plugins", mount_path=_PLUGINS),
            k8s.core.v1.VolumeMountArgs(name="infiniband", mount_path="/dev/infiniband"),
        ],
    )
    return _daemon_set(
        f"{name}-efa-device-plugin",
        "efa-device-plugin",
        EFA_NODE_LABEL,
        container,
        [_host_path("device-plugins", _PLUGINS), _host_path("infiniband", "/dev/infiniband")],
        taint_keys,
        labels,
        opts,
        host_network=True,
    )


def _daemon_set(
    resource: str,
    app: str,
    node_label: str,
    container: k8s.core.v1.ContainerArgs,
    volumes: list[k8s.core.v1.VolumeArgs],
    taint_keys: Sequence[str],
    labels: Mapping[str, str],
    opts: pulumi.ResourceOptions,
    *,
    host_network: bool = False,
) -> k8s.apps.v1.DaemonSet:
    selector = {"app.kubernetes.io/name": app}
    on_labelled_nodes = k8s.core.v1.NodeSelectorArgs(
        node_selector_terms=[
            k8s.core.v1.NodeSelectorTermArgs(
                match_expressions=[k8s.core.v1.NodeSelectorRequirementArgs(key=node_label, operator="Exists")]
            )
        ]
    )
    return k8s.apps.v1.DaemonSet(
        resource,
        metadata=k8s.meta.v1.ObjectMetaArgs(
            name=app,
            namespace="kube-system",
            labels={**labels, **selector},
            # GPU nodes join and leave with capacity: an update does not wait for them.
            annotations={"pulumi.com/skipAwait": "true"},
        ),
        spec=k8s.apps.v1.DaemonSetSpecArgs(
            selector=k8s.meta.v1.LabelSelectorArgs(match_labels=selector),
            template=k8s.core.v1.PodTemplateSpecArgs(
                metadata=k8s.meta.v1.ObjectMetaArgs(labels={**labels, **selector}),
                spec=k8s.core.v1.PodSpecArgs(
                    priority_class_name="system-node-critical",
                    automount_service_account_token=False,
                    host_network=host_network or None,
                    affinity=k8s.core.v1.AffinityArgs(
                        node_affinity=k8s.core.v1.NodeAffinityArgs(
                            required_during_scheduling_ignored_during_execution=on_labelled_nodes
                        )
                    ),
                    tolerations=[
                        k8s.core.v1.TolerationArgs(key=key, operator="Exists")
                        for key in dict.fromkeys(["CriticalAddonsOnly", *taint_keys])
                    ],
                    containers=[container],
                    volumes=volumes,
                ),
            ),
        ),
        opts=opts,
    )


def _small() -> k8s.core.v1.ResourceRequirementsArgs:
    return k8s.core.v1.ResourceRequirementsArgs(
        requests={"cpu": "10m", "memory": "32Mi"}, limits={"memory": "128Mi"}
    )


def _unprivileged() -> k8s.core.v1.SecurityContextArgs:
    return k8s.core.v1.SecurityContextArgs(
        allow_privilege_escalation=False,
        capabilities=k8s.core.v1.CapabilitiesArgs(drop=["ALL"]),
    )


def _host_path(name: str, path: str) -> k8s.core.v1.VolumeArgs:
    return k8s.core.v1.VolumeArgs(name=name, host_path=k8s.core.v1.HostPathVolumeSourceArgs(path=path))
