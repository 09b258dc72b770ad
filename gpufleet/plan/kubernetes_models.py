"""A cloud Kubernetes site: its cluster, the nodes that carry the cluster's services, and its teams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from gpufleet.catalog.images import Architecture
from gpufleet.kinds import KubernetesAccess
from gpufleet.plan.autoscaler import AutoscalerPlan
from gpufleet.plan.fault_repair import FaultRepairPlan
from gpufleet.plan.karpenter import KarpenterPlan
from gpufleet.plan.queue_models import QueuesPlan


class VolumePlan(Struct, frozen=True):
    """The root volume: GiB, IOPS, MB/s."""

    size_gib: int
    iops: int
    throughput: int


class TeamBucketPlan(Struct, frozen=True):
    """A bucket that a team's pods reach, by its name in the storage; `write`: below the team's prefix.

    With `mount`, claims show it as folders (`bucket_claims`).
    """

    storage: str
    write: bool
    mount: bool = False


class TeamFileSystemPlan(Struct, frozen=True):
    """A file system that a team's pods mount, by its name in the storage."""

    storage: str
    write: bool


class TeamPlan(Struct, frozen=True):
    """A team's share of a Kubernetes or Slurm site; `buckets` and `file_systems` are those that its pods
    reach.

    `neuron_devices` is what its pods may hold at once on an EKS site, and `gpu_shares` how many shares of
    GPUs of each kind.
    """

    name: str
    gpus: int
    priority: Literal["low", "normal", "high"]
    buckets: tuple[TeamBucketPlan, ...] = ()
    neuron_devices: int = 0
    file_systems: tuple[TeamFileSystemPlan, ...] = ()
    gpu_shares: int = 0


class SystemNodesPlan(Struct, frozen=True):
    """On-demand nodes for what a cluster itself needs, such as its DNS. `image` is the name of EKS's
    image for `architecture`, and `image_release` its release."""

    instance_types: tuple[str, ...]
    min: int
    max: int
    volume: VolumePlan
    image: str
    image_release: str
    architecture: Architecture


class NeuronPlan(Struct, frozen=True):
    """What an EKS cluster with Neuron devices runs for them: the device plugin of `version`, and with a
    `scheduler_image` a second scheduler (of Kubernetes's own minor) with Neuron's extension of `version`."""

    version: str
    scheduler_image: str


class KubernetesPlan(Struct, frozen=True):
    """Settings of a cloud Kubernetes site.

    With `support_type` STANDARD, EKS upgrades the cluster when its version's standard support ends;
    EXTENDED keeps the version at a higher price.
    `device_plugin_version` and `gpu_operator_version` are the software channel's, written as their
    images and charts are tagged (`v0.20.0`). `log_types` are what the control plane logs, and
    `addons` what EKS installs, by the names of EKS, with the channel's `addon_versions`;
    `unverified_addons` are those whose version was not read in AWS's pages. `access` is how a run reaches
    the API, through `access_port` of its machine with `ssm` (else None); with `phased` nothing is applied
    in the cluster. `neuron` is None without node groups that have Neuron devices, `autoscaler` (the Cluster
    Autoscaler), `karpenter`, `queues` and `fault_repair` if gpufleet installs none.
    """

    version: str
    private_cidrs: tuple[str, ...]
    public_cidrs: tuple[str, ...]
    access: KubernetesAccess
    access_port: int | None
    admins: tuple[str, ...]
    viewers: tuple[str, ...]
    gpu_stack: Literal["device-plugin", "gpu-operator"]
    device_plugin_version: str
    gpu_operator_version: str
    system_nodes: SystemNodesPlan
    support_type: Literal["STANDARD", "EXTENDED"]
    log_types: tuple[str, ...]
    addons: tuple[str, ...]
    addon_versions: Mapping[str, str]
    unverified_addons: tuple[str, ...]
    teams: tuple[TeamPlan, ...]
    neuron: NeuronPlan | None = None
    autoscaler: AutoscalerPlan | None = None
    karpenter: KarpenterPlan | None = None
    queues: QueuesPlan | None = None
    fault_repair: FaultRepairPlan | None = None

    @property
    def scales_system_nodes(self) -> bool:
        """Whether the Cluster Autoscaler sets the number of system nodes."""
        return self.autoscaler is not None and self.system_nodes.min < self.system_nodes.max
