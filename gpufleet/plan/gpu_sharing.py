"""GPUs that pods share or that are divided (MIG): what pods request, and NVIDIA's device plugin's settings.

The names are those of the device plugin with MIG strategy `mixed` and `renameByDefault`: a part of a GPU
never counts as a GPU (k8s-device-plugin README, "Shared Access to GPUs").
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal, Protocol

from msgspec import Struct

from gpufleet.catalog import InstanceType
from gpufleet.catalog.mig import MigGpu, mig_of
from gpufleet.kinds import GPU_RESOURCE, GPU_SHARING_LABEL, UNSHARED_GPUS
from gpufleet.spec.gpu_sharing import GpuSharing

SharingKind = Literal["none", "time_slicing", "mps"]

GpuStack = Literal["device-plugin", "gpu-operator"]


class GpuSharingPlan(Struct, frozen=True):
    """How pods get GPUs of a cloud node group that are shared, divided, or both.

    A GPU is `mig_devices` instances of `mig_profile` (1 and None if it is whole), and each of them is shared
    by `replicas` pods (1 if `kind` is none). Pods request `resource`; a GPU has `per_gpu` of it.
    """

    kind: SharingKind
    replicas: int
    mig_profile: str | None
    mig_devices: int
    resource: str
    per_gpu: int

    @property
    def config_name(self) -> str:
        """The name of the device plugin's configuration."""
        return config_name(self.kind, self.replicas, self.mig_profile)


class _Group(Protocol):
    """A node group of a plan."""

    @property
    def gpu_sharing(self) -> GpuSharingPlan | None:
        """How pods get its GPUs."""


def plan_gpu_sharing(
    instance: InstanceType, sharing: GpuSharing | None, mig_profile: str | None
) -> GpuSharingPlan | None:
    """Return how pods get the GPUs of a node group; None if each has whole ones. A check refuses profiles
    that the GPU does not have."""
    if sharing is None and mig_profile is None:
        return None
    kind, replicas = sharing_of(sharing)
    gpu = mig_gpu_of(instance)
    profile = gpu.profile(mig_profile) if gpu is not None and mig_profile else None
    devices = profile.most if profile is not None else 1
    return GpuSharingPlan(
        kind=kind,
        replicas=replicas,
        mig_profile=mig_profile,
        mig_devices=devices,
        resource=resource_name(mig_profile=mig_profile, shared=kind != "none"),
        per_gpu=devices * replicas,
    )


def share_resources(groups: Iterable[_Group]) -> list[str]:
    """Return what pods of a site request instead of whole GPUs, each once."""
    return sorted({group.gpu_sharing.resource for group in groups if group.gpu_sharing is not None})


def mig_gpu_of(instance: InstanceType) -> MigGpu | None:
    """Return the profiles of the type's GPUs; None if they cannot be divided, or the type has a fraction."""
    found = instance.accelerator
    if found is None or found.memory_gib is None or not found.count:
        return None
    memory = found.memory_gib
    return min(mig_of(found.name), key=lambda size: abs(size.memory_gb - memory), default=None)


def sharing_labels(sharing: GpuSharingPlan, stack: GpuStack) -> dict[str, str]:
    """Return the labels by which nodes get their configuration: gpufleet's own device plugins select them,
    the GPU Operator's plugin and MIG manager read them (GPU Operator, "Time-Slicing GPUs", "MIG")."""
    labels = {}
    if sharing.kind != "none":
        key = GPU_SHARING_LABEL if stack == "device-plugin" else "nvidia.com/device-plugin.config"
        labels[key] = sharing.config_name
    if sharing.mig_profile is not None:
        labels["nvidia.com/mig.config"] = f"all-{sharing.mig_profile.replace('+', '.')}"
    return labels


def sharing_of(sharing: GpuSharing | None) -> tuple[SharingKind, int]:
    """Return how pods share a GPU, and how many of them do."""
    if sharing is not None and sharing.time_slicing is not None:
        return "time_slicing", sharing.time_slicing.replicas
    if sharing is not None and sharing.mps is not None:
        return "mps", sharing.mps.replicas
    return "none", 1


def resource_name(*, mig_profile: str | None, shared: bool) -> str:
    """Return the extended resource of a GPU, a MIG device, or a share of either."""
    # The plugin replaces the `+` of profiles such as 1g.10gb+me by a dot.
    device = f"nvidia.com/mig-{mig_profile.replace('+', '.')}" if mig_profile else GPU_RESOURCE
    return f"{device}.shared" if shared else device


def config_name(kind: SharingKind, replicas: int, mig_profile: str | None) -> str:
    """Return the name of a device plugin configuration; groups that share alike have the same."""
    if kind == "none":
        return UNSHARED_GPUS
    name = f"{kind.replace('_', '-')}-{replicas}"
    return f"{name}-{mig_profile.replace('+', '.')}" if mig_profile else name


def config_text(kind: SharingKind, replicas: int, mig_profile: str | None) -> str:
    """Return the device plugin configuration (k8s-device-plugin, api/config/v1) as JSON, which is YAML too.

    A share has a resource name of its own, so that quotas of GPUs count whole ones. A pod that requests two
    time slices could get both on one GPU: such requests fail.
    """
    if kind == "none":
        return json.dumps({"version": "v1"})
    device = resource_name(mig_profile=mig_profile, shared=False)
    shared: dict[str, Any] = {
        "renameByDefault": True,
        "resources": [{"name": device, "replicas": replicas}],
    }
    if kind == "mps":
        return json.dumps({"version": "v1", "sharing": {"mps": shared}})
    return json.dumps(
        {"version": "v1", "sharing": {"timeSlicing": shared | {"failRequestsGreaterThanOne": True}}}
    )
