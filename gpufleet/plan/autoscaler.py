"""The Cluster Autoscaler of an EKS site, and what it must know about node groups without nodes.

Sources: kubernetes/autoscaler, `cloudprovider/aws` (README.md, aws_manager.go, aws_wrapper.go) and
`processors/customresources/gpu_processor.go` at cluster-autoscaler-1.35.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from gpufleet.catalog.interfaces import NetworkInterface
from gpufleet.catalog.models import SoftwareLock
from gpufleet.kinds import CLUSTER_AUTOSCALER_IMAGE, Expander
from gpufleet.plan.accelerators import AcceleratorPlan
from gpufleet.plan.capacity_models import CapacityPlan, SpotPlan
from gpufleet.plan.gpu_sharing import GpuSharingPlan
from gpufleet.plan.rack_models import TaintPlan
from gpufleet.spec.models import CloudSite, Kubernetes

EFA_RESOURCE = "vpc.amazonaws.com/efa"
ACCELERATOR_LABEL = "k8s.amazonaws.com/accelerator"
"""A node with this label and without GPUs is not ready for the autoscaler: its device plugin will start."""

_TEMPLATE = "k8s.io/cluster-autoscaler/node-template"
_USABLE_DISK = 0.85
"""Of a root volume: the kubelet evicts pods at 10% free, and nodeadm reserves 1 GiB for itself."""

_IDLE = "0.001"
"""A node that has more of its CPU or memory requested, DaemonSets apart, is in use."""


class AutoscalerPlan(Struct, frozen=True):
    """The Cluster Autoscaler of a site: its image, and how it decides."""

    image: str
    scale_down: bool
    scale_down_after_s: int
    expander: Expander


class AutoscaledPlan(Struct, frozen=True):
    """What a node group needs besides for the autoscaler.

    `node_labels` are further labels of its nodes. `tags` are those of the EKS node group and `scaling_tags`
    those of its Auto Scaling groups: what nodes will have, and options of the group.
    """

    node_labels: Mapping[str, str]
    tags: Mapping[str, str]
    scaling_tags: Mapping[str, str]


def plan_autoscaler(settings: Kubernetes, lock: SoftwareLock) -> AutoscalerPlan | None:
    """The Cluster Autoscaler of the cluster's minor version; None if the fleet file does not ask for it."""
    wanted = settings.autoscaler
    if wanted is None or wanted.kind != "cluster-autoscaler":
        return None
    return AutoscalerPlan(
        image=f"{CLUSTER_AUTOSCALER_IMAGE}:v{lock.cluster_autoscaler[settings.version]}",
        scale_down=wanted.scale_down,
        scale_down_after_s=int(wanted.scale_down_after.delta.total_seconds()),
        expander=wanted.expander,
    )


def plan_autoscaled(
    site: CloudSite,
    capacity: CapacityPlan,
    accelerator: AcceleratorPlan | None,
    interfaces: Sequence[NetworkInterface],
    taints: Sequence[TaintPlan],
    volume_gib: int,
    sharing: GpuSharingPlan | None,
    *,
    drawn: bool,
) -> AutoscaledPlan | None:
    """What the autoscaler must know about a group; None if it does not set the group's size.

    A group that an order draws from (`drawn`), one of a fixed size, and one of a Capacity Block are not its
    own.
    """
    settings = site.kubernetes
    if site.scheduler != "kubernetes" or settings is None or drawn or not can_scale(capacity):
        return None
    if settings.autoscaler is None or settings.autoscaler.kind != "cluster-autoscaler":
        return None
    # Nodes that wait for shares would never be ready for it: it knows the resource of whole GPUs only.
    gpu = accelerator is not None and accelerator.kind == "gpu" and sharing is None
    resources = {"ephemeral-storage": f"{int(volume_gib * _USABLE_DISK)}Gi"}
    if accelerator is not None:
        # A fraction of a GPU is one device.
        count = max(accelerator.count, 1)
        resources[accelerator.resource] = str(count if sharing is None else 0)
        if sharing is not None:
            resources[sharing.resource] = str(count * sharing.per_gpu)
    if adapters := sum(1 for each in interfaces if each.interface_type != "interface"):
        resources[EFA_RESOURCE] = str(adapters)
    # Of the taints in EKS's description the autoscaler leaves out those that have no value there.
    scaling = {f"{_TEMPLATE}/taint/{each.key}": f":{each.effect}" for each in taints if not each.value}
    if accelerator is not None and not gpu:
        # It knows the use of whole GPUs only: a job on Neuron devices needs little CPU, and must stay.
        scaling |= {
            f"{_TEMPLATE}/autoscaling-options/scaledownutilizationthreshold": _IDLE,
            f"{_TEMPLATE}/autoscaling-options/ignoredaemonsetsutilization": "true",
        }
    return AutoscaledPlan(
        node_labels={ACCELERATOR_LABEL: _accelerator(accelerator.name)} if accelerator and gpu else {},
        tags={f"{_TEMPLATE}/resources/{name}": count for name, count in resources.items()},
        scaling_tags=scaling,
    )


def can_scale(capacity: CapacityPlan) -> bool:
    """Whether the size of a group can change while the fleet file stays."""
    if isinstance(capacity, SpotPlan) and capacity.on_demand_fallback:
        return True
    return capacity.min < capacity.max


def _accelerator(gpu: str) -> str:
    return f"nvidia-{gpu.lower().replace(' ', '-')}"
