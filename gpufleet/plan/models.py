"""FleetPlan: everything that follows from a fleet file, computed once, without network or Pulumi.

Components build exactly what stands here, the inventory and the reports read it, policies compare
against it. Amounts are USD per month (730 hours) as `Decimal`; `None` means unknown, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Literal

from gpufleet.catalog.interfaces import InterfaceType as InterfaceType
from gpufleet.catalog.interfaces import NetworkInterface as NetworkInterface
from gpufleet.plan.rack_models import RackPlan

HOURS_PER_MONTH = 730

CapacityKind = Literal["on-demand", "spot", "odcr", "capacity-block"]


@dataclass(frozen=True, slots=True)
class SubnetPlan:
    """A subnet: one public and one private per zone."""

    zone: str
    kind: Literal["public", "private"]
    cidr: str


@dataclass(frozen=True, slots=True)
class CapacityPlan:
    """How many nodes of a group, bought how. `desired` lies between `min` and `max`.

    `reservation_id` names an existing reservation; without it an `odcr` or `capacity-block` is
    created by the stack. `start` is the fleet file's own text ("in 14 d" or an ISO date): it is
    resolved once, when the block is bought, and kept in the state. `duration` is a block's length.
    `on_demand_fallback` lets a spot group take on-demand nodes when there is no spot capacity.
    `spot_max_price` is what an hour of a spot node may cost, in USD.
    """

    kind: CapacityKind
    min: int
    max: int
    desired: int
    reservation_id: str | None = None
    reservation_zone: str | None = None
    reservation_placement_group: str | None = None
    start: str | None = None
    duration: timedelta | None = None
    on_demand_fallback: bool = False
    spot_max_price: Decimal | None = None


@dataclass(frozen=True, slots=True)
class CostRange:
    """Money per month: `low` at minimum size and best price, `expected` at desired size, `high` at
    maximum size and worst price. Every part is None when a price it needs is unknown.
    """

    low: Decimal | None
    expected: Decimal | None
    high: Decimal | None


@dataclass(frozen=True, slots=True)
class CostLine:
    """One priced thing. `source` and `date` are those of the price; `basis` says how it was computed
    ("8 x p5.48xlarge x 730 h x 55.04 USD/h"). `upfront` is a payment made at once.
    """

    site: str
    owner: str
    kind: Literal["compute", "storage", "network", "control-plane", "power", "ownership"]
    what: str
    monthly: CostRange
    basis: str
    source: str
    date: str | None
    tags: Mapping[str, str] = field(default_factory=dict)
    upfront: Decimal | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class UnknownCost:
    """A price nobody knows: what lacks it and why."""

    site: str
    owner: str
    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class CostPlan:
    """What the fleet costs a month, and against which budget.

    `monthly` sums the known lines only: with a non-empty `unknown` it is a lower bound and says
    so wherever it is shown. `by_site`, `by_owner` (node group, storage, ...: "site/name") and
    `by_tag` (tag key -> value -> range) are sums of the same lines. `not_counted` says, in words,
    what costs money and depends on use (data transfer, objects in buckets).
    """

    currency: str
    monthly: CostRange
    upfront: Decimal
    budget_monthly: Decimal
    lines: tuple[CostLine, ...]
    unknown: tuple[UnknownCost, ...]
    by_site: Mapping[str, CostRange]
    by_owner: Mapping[str, CostRange]
    by_tag: Mapping[str, Mapping[str, CostRange]]
    not_counted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaintPlan:
    """A Kubernetes taint."""

    key: str
    value: str
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"]


@dataclass(frozen=True, slots=True)
class VolumePlan:
    """The root volume: GiB, IOPS, MB/s."""

    size_gib: int
    iops: int
    throughput: int


@dataclass(frozen=True, slots=True)
class NodeGroupPlan:
    """A cloud node group, ready to be built.

    `network_interfaces` is the layout of `instance_type`, the first of `instance_types` (all types
    of a group have the same layout; a check enforces it). `placement_group` is True when the
    stack creates a cluster placement group for it. `gpus_per_node` counts whole GPUs.
    """

    site: str
    name: str
    instance_type: str
    instance_types: tuple[str, ...]
    gpu: str
    gpus_per_node: int
    capacity: CapacityPlan
    efa: bool
    network_interfaces: tuple[NetworkInterface, ...]
    zones: tuple[str, ...]
    placement_group: bool
    workload: str
    labels: Mapping[str, str]
    taints: tuple[TaintPlan, ...]
    volume: VolumePlan
    public_ip: bool
    tags: Mapping[str, str]
    team: str | None = None


@dataclass(frozen=True, slots=True)
class LustrePlan:
    """An FSx for Lustre file system. Sizes in GiB, throughput in MB/s per TiB."""

    site: str
    name: str
    deployment: Literal["PERSISTENT_2", "PERSISTENT_1", "SCRATCH_2"]
    capacity_gib: int
    throughput: int | None
    efa: bool
    metadata_iops: int | None
    compression: Literal["LZ4", "NONE"]
    backup_days: int
    zone: str
    mount: str
    tags: Mapping[str, str]
    import_bucket: str | None = None
    import_prefix: str = ""
    export: bool = False
    kms_key: str | None = None


@dataclass(frozen=True, slots=True)
class BucketPlan:
    """An S3 bucket that the stack creates."""

    site: str
    name: str
    bucket: str
    versioning: bool
    expire_days: int | None
    tags: Mapping[str, str]
    kms_key: str | None = None


@dataclass(frozen=True, slots=True)
class TeamPlan:
    """A team's share of a Kubernetes or Slurm site."""

    name: str
    gpus: int
    priority: Literal["low", "normal", "high"]


@dataclass(frozen=True, slots=True)
class KubernetesPlan:
    """Settings of a cloud Kubernetes site.

    `device_plugin_version` and `gpu_operator_version` are the software channel's, written as their
    images and charts are tagged (`v0.20.0`).
    """

    version: str
    private_cidrs: tuple[str, ...]
    public_cidrs: tuple[str, ...]
    admins: tuple[str, ...]
    gpu_stack: Literal["device-plugin", "gpu-operator"]
    device_plugin_version: str
    gpu_operator_version: str
    system_instance_types: tuple[str, ...]
    system_min: int
    system_max: int
    teams: tuple[TeamPlan, ...]


@dataclass(frozen=True, slots=True)
class CloudSitePlan:
    """A cloud site, ready to be built. `kubernetes` is None on a Slurm site."""

    site: str
    provider: Literal["aws"]
    region: str
    zones: tuple[str, ...]
    cidr: str
    nat: Literal["single", "per-zone", "none"]
    subnets: tuple[SubnetPlan, ...]
    scheduler: Literal["kubernetes", "slurm"]
    kubernetes: KubernetesPlan | None
    node_groups: tuple[NodeGroupPlan, ...]
    lustre: tuple[LustrePlan, ...]
    buckets: tuple[BucketPlan, ...]
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HostPlan:
    """An on-premises host. `address` is what SSH connects to; `bmc` its management controller."""

    name: str
    site: str
    role: Literal["gpu", "controller", "login"]
    address: str
    bmc: str | None = None


@dataclass(frozen=True, slots=True)
class MountPlan:
    """A shared file system of a rack site, and where nodes see it."""

    kind: Literal["nfs", "lustre", "beegfs", "weka", "gpfs"]
    source: str
    path: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OnPremSitePlan:
    """A rack site: its hosts and what every role needs to know of them."""

    site: str
    system: str
    gpu: str
    gpus_per_node: int
    hosts: tuple[HostPlan, ...]
    fabric_kind: Literal["infiniband", "roce"]
    fabric_speed: str
    fabric_topology: Literal["rail-optimized", "fat-tree"]
    scheduler: Literal["slurm", "kubernetes"]
    ssh_user: str
    ssh_port: int
    mounts: tuple[MountPlan, ...]
    teams: tuple[TeamPlan, ...]
    power_kw_per_node: Decimal | None
    tags: Mapping[str, str]
    rack: RackPlan


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """The budget that the stack installs in the cloud account. Thresholds in percent."""

    monthly: Decimal
    currency: str
    alerts: tuple[Decimal, ...]
    on_breach: Literal["notify", "stop-scale-out"]
    notify: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """One environment of one fleet, derived from its fleet file and the catalog."""

    fleet: str
    environment: str
    tags: Mapping[str, str]
    cloud: tuple[CloudSitePlan, ...]
    onprem: tuple[OnPremSitePlan, ...]
    budget: BudgetPlan
    software_channel: str
    cost: CostPlan

    @property
    def node_groups(self) -> tuple[NodeGroupPlan, ...]:
        """All cloud node groups, in the order of the fleet file."""
        return tuple(group for site in self.cloud for group in site.node_groups)

    @property
    def gpus_at_maximum(self) -> int:
        """GPUs of the whole fleet when every node group is at its maximum."""
        cloud = sum(group.gpus_per_node * group.capacity.max for group in self.node_groups)
        onprem = sum(
            site.gpus_per_node * sum(1 for host in site.hosts if host.role == "gpu") for site in self.onprem
        )
        return cloud + onprem
