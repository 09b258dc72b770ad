"""FleetPlan: everything that follows from a fleet file, computed once, without network or Pulumi.

Components build exactly what stands here, the inventory and the reports read it, policies compare
against it. Amounts are USD per month (730 hours) as `Decimal`; `None` means unknown, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, ClassVar, Literal

from msgspec import Struct

from gpufleet.catalog.interfaces import InterfaceType as InterfaceType
from gpufleet.catalog.interfaces import NetworkInterface as NetworkInterface
from gpufleet.kinds import LustreDeployment, NatKind
from gpufleet.plan.accelerators import AcceleratorPlan as AcceleratorPlan
from gpufleet.plan.autoscaler import AutoscaledPlan as AutoscaledPlan
from gpufleet.plan.autoscaler import AutoscalerPlan as AutoscalerPlan
from gpufleet.plan.budget_models import BudgetPlan
from gpufleet.plan.capacity_models import CapacityPlan
from gpufleet.plan.direct_connect import DirectConnectPlan
from gpufleet.plan.dns import DnsPlan
from gpufleet.plan.gpu_sharing import GpuSharingPlan
from gpufleet.plan.image_models import ImageKind, ImageSoftwarePlan, LocalNvmePlan
from gpufleet.plan.interruptions import InterruptionsPlan
from gpufleet.plan.json import ELSEWHERE, MONEY
from gpufleet.plan.karpenter import KarpenterPlan as KarpenterPlan
from gpufleet.plan.karpenter import NodePoolPlan as NodePoolPlan
from gpufleet.plan.kubernetes_models import KubernetesPlan as KubernetesPlan
from gpufleet.plan.kubernetes_models import NeuronPlan as NeuronPlan
from gpufleet.plan.kubernetes_models import SystemNodesPlan as SystemNodesPlan
from gpufleet.plan.kubernetes_models import TeamBucketPlan as TeamBucketPlan
from gpufleet.plan.kubernetes_models import TeamPlan as TeamPlan
from gpufleet.plan.kubernetes_models import VolumePlan as VolumePlan
from gpufleet.plan.names import group_resource_name
from gpufleet.plan.ordered_capacity import OrderPlan
from gpufleet.plan.rack_models import RackPlan, RackSoftwarePlan
from gpufleet.plan.rack_models import TaintPlan as TaintPlan
from gpufleet.plan.slurm_models import CloudSlurmPlan
from gpufleet.plan.subnets import SubnetPlan
from gpufleet.plan.vpn import VpnPlan


class NodeGroupPlan(Struct, frozen=True):
    """A cloud node group, ready to be built.

    `image` is the name of EKS's image, the name of AWS's image of Slurm nodes, or an image of the user's
    own, by `image_kind`; `image_release` is the release of AWS's. `software` is what the release notes say
    of it, None if unknown. `user_data` are the parts of the user data, gpufleet's own first.
    `network_interfaces` is the layout of `instance_type`, the first of `instance_types` (all types
    of a group have the same layout; a check enforces it). `placement_group` is True when the
    stack creates a cluster placement group for it. `accelerator` has the GPUs or Neuron devices of a node;
    `gpu` and `gpus_per_node` (whole ones) those of nodes with GPUs only. `autoscaled` is None if no
    Cluster Autoscaler sets its size, `gpu_sharing` if pods get whole GPUs, `node_pool` if it is a group of
    AWS's and not Karpenter's. `ordered` is whether an order, of any site, draws from it.
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
    image: str
    image_kind: ImageKind
    image_release: str
    software: ImageSoftwarePlan | None
    local_nvme: LocalNvmePlan | None
    user_data: tuple[str, ...]
    tags: Mapping[str, str]
    team: str | None = None
    accelerator: AcceleratorPlan | None = None
    autoscaled: AutoscaledPlan | None = None
    gpu_sharing: GpuSharingPlan | None = None
    node_pool: NodePoolPlan | None = None
    ordered: bool = False

    @property
    def public_addresses(self) -> int:
        """Public IPv4 addresses of each node: EC2 gives none to a node with several interfaces."""
        return int(self.public_ip and len(self.network_interfaces) == 1)


class KeyPlan(Struct, frozen=True):
    """A KMS key that the stack makes: the name of its resource, and whose it is.

    `owner` is a node group, a storage or what a site needs besides (see `gpufleet.plan.names`).
    """

    name: str
    owner: str


class LogGroupPlan(Struct, frozen=True):
    """A CloudWatch log group that the stack makes, by its name in AWS."""

    name: str
    retention_days: int


class LustrePlan(Struct, frozen=True):
    """An FSx for Lustre file system. Sizes in GiB, throughput in MB/s per TiB."""

    site: str
    name: str
    kind: ClassVar[Literal["lustre"]] = "lustre"
    deployment: LustreDeployment
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

    @property
    def needs_key(self) -> bool:
        """Whether the stack makes a KMS key for it: FSx encrypts scratch types with a key that it manages."""
        return self.kms_key is None and self.deployment != "SCRATCH_2"


class BucketPlan(Struct, frozen=True):
    """An S3 bucket that the stack creates."""

    site: str
    name: str
    kind: ClassVar[Literal["bucket"]] = "bucket"
    bucket: str
    versioning: bool
    expire_days: int | None
    tags: Mapping[str, str]
    kms_key: str | None = None


class CloudSitePlan(Struct, frozen=True):
    """A cloud site, ready to be built. `kubernetes` is None on a Slurm site, `slurm` where no Slurm launches
    its nodes.

    `interruptions` is None if nothing acts on AWS's notices. `interface_endpoints` are the AWS services
    (`ecr.api`) that nodes of a site without NAT reach through endpoints of the network, one in each zone.
    `flow_logs` are those of the network. `vpn` and `direct_connect` are None if no VPN or Direct
    Connect leads to the racks, `dns` if no names are exchanged with them,
    `vpn_logs` if its tunnels write none.
    """

    site: str
    kind: ClassVar[Literal["cloud"]] = "cloud"
    provider: Literal["aws"]
    region: str
    zones: tuple[str, ...]
    cidr: str
    nat: NatKind
    vpn: VpnPlan | None
    direct_connect: DirectConnectPlan | None
    dns: DnsPlan | None
    subnets: tuple[SubnetPlan, ...]
    scheduler: Literal["kubernetes", "slurm"]
    kubernetes: KubernetesPlan | None
    slurm: CloudSlurmPlan | None
    interruptions: InterruptionsPlan | None
    node_groups: Annotated[tuple[NodeGroupPlan, ...], ELSEWHERE]
    ordered_capacity: tuple[OrderPlan, ...]
    lustre: Annotated[tuple[LustrePlan, ...], ELSEWHERE]
    buckets: Annotated[tuple[BucketPlan, ...], ELSEWHERE]
    interface_endpoints: tuple[str, ...]
    flow_logs: Annotated[LogGroupPlan, ELSEWHERE]
    cluster_logs: Annotated[LogGroupPlan | None, ELSEWHERE]
    keys: tuple[KeyPlan, ...]
    tags: Mapping[str, str]
    vpn_logs: Annotated[LogGroupPlan | None, ELSEWHERE] = None

    @property
    def nat_zones(self) -> tuple[str, ...]:
        """The zones with a NAT gateway."""
        return {"none": (), "single": self.zones[:1], "per-zone": self.zones}[self.nat]

    @property
    def log_groups(self) -> tuple[LogGroupPlan, ...]:
        """The log groups of the site."""
        return tuple(each for each in (self.flow_logs, self.cluster_logs, self.vpn_logs) if each is not None)


class HostPlan(Struct, frozen=True):
    """A host that roles configure. `address` is what SSH connects to; `bmc` its management controller."""

    name: str
    site: str
    role: Literal["gpu", "controller", "login"]
    address: str
    bmc: str | None = None


class MountPlan(Struct, frozen=True):
    """A shared file system of a rack site, and where nodes see it."""

    kind: Literal["nfs", "lustre", "beegfs", "weka", "gpfs"]
    source: str
    mount: str
    options: tuple[str, ...] = ()


class PowerPlan(Struct, frozen=True):
    """What the energy of a rack site costs: its power usage effectiveness, and USD for a kWh."""

    pue: Decimal
    usd_per_kwh: Decimal


class OwnershipPlan(Struct, frozen=True):
    """What a GPU node of a rack site cost to buy, in USD, and over how long that is written off."""

    acquisition: Annotated[Decimal, MONEY]
    lifetime: Annotated[timedelta, ELSEWHERE]

    @property
    def lifetime_days(self) -> int:
        """The whole days of the lifetime."""
        return self.lifetime.days


class FabricPlan(Struct, frozen=True):
    """What the compute fabric of a rack site is; `none` between servers in the cloud."""

    kind: Literal["infiniband", "roce", "none"]
    speed: str
    topology: Literal["rail-optimized", "fat-tree"]


class OnPremSitePlan(Struct, frozen=True):
    """A rack site: its hosts and what every role needs of them.

    `running_costs` are USD per month for colocation, support and staff, as far as the fleet file has them.
    """

    site: str
    kind: ClassVar[Literal["onprem"]] = "onprem"
    system: str
    gpu: str
    gpus_per_node: int
    hosts: Annotated[tuple[HostPlan, ...], ELSEWHERE]
    fabric: FabricPlan
    scheduler: Literal["slurm", "kubernetes"]
    ssh_user: str
    ssh_port: int
    mounts: tuple[MountPlan, ...]
    teams: tuple[TeamPlan, ...]
    power_kw_per_node: Decimal | None
    power: PowerPlan | None
    ownership: OwnershipPlan | None
    running_costs: Annotated[Mapping[str, Decimal], MONEY]
    tags: Mapping[str, str]
    rack: RackPlan
    software: tuple[RackSoftwarePlan, ...]

    @property
    def nodes(self) -> int:
        """How many GPU nodes it has."""
        return sum(1 for host in self.hosts if host.role == "gpu")


class FleetPlan(Struct, frozen=True):
    """One environment of one fleet, derived from its fleet file and the catalog.

    `keys` and `log_groups` are those of the account; each site has its own. `server_hosts` are the hosts of
    cloud sites with a Slurm of their own, as the roles of racks see them: sites without GPU nodes.
    """

    fleet: str
    environment: str
    tags: Mapping[str, str]
    cloud: Annotated[tuple[CloudSitePlan, ...], ELSEWHERE]
    onprem: Annotated[tuple[OnPremSitePlan, ...], ELSEWHERE]
    budget: BudgetPlan
    software_channel: str
    keys: tuple[KeyPlan, ...]
    log_groups: tuple[LogGroupPlan, ...] = ()
    server_hosts: tuple[OnPremSitePlan, ...] = ()

    @property
    def sites(self) -> tuple[CloudSitePlan | OnPremSitePlan, ...]:
        """All sites, those in the cloud first."""
        return (*self.cloud, *self.onprem)

    def host_sites(self) -> tuple[OnPremSitePlan, ...]:
        """The sites whose hosts roles configure: racks, and servers in the cloud."""
        return (*self.onprem, *self.server_hosts)

    @property
    def node_groups(self) -> tuple[NodeGroupPlan, ...]:
        """All cloud node groups, in the order of the fleet file."""
        return tuple(group for site in self.cloud for group in site.node_groups)

    def launched_maxima(self) -> dict[str, int]:
        """The most nodes of the groups whose nodes Slurm launches, by resource name."""
        return {
            group_resource_name(self.fleet, self.environment, site.site, group.name): group.capacity.max
            for site in self.cloud
            if site.slurm is not None
            for group in site.node_groups
        }

    @property
    def storage(self) -> tuple[LustrePlan | BucketPlan, ...]:
        """All storage in the cloud, site by site."""
        found: list[LustrePlan | BucketPlan] = []
        for site in self.cloud:
            found += [*site.lustre, *site.buckets]
        return tuple(found)

    @property
    def hosts(self) -> tuple[HostPlan, ...]:
        """All hosts that roles configure, site by site."""
        return tuple(host for site in self.host_sites() for host in site.hosts)

    @property
    def gpus_at_maximum(self) -> int:
        """GPUs of the whole fleet when every node group is at its maximum."""
        cloud = sum(group.gpus_per_node * group.capacity.max for group in self.node_groups)
        return cloud + sum(site.gpus_per_node * site.nodes for site in self.onprem)

    @property
    def neuron_devices_at_maximum(self) -> int:
        """Neuron devices of the whole fleet when every node group is at its maximum."""
        return sum(
            group.accelerator.count * group.capacity.max
            for group in self.node_groups
            if group.accelerator is not None and group.accelerator.kind == "neuron"
        )
