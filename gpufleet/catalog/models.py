"""Types of the catalog: facts about what can be bought and run, each with source and date.

An unknown figure is None with `verified=False`, never 0. Values come from the data files beside this module
(`data/`, one file per kind), never from code.
"""

import datetime as dt
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gpufleet.catalog.accelerator import Accelerator, nested

PriceUnit = Literal[
    "instance-hour", "GB-month", "hour", "month", "GB", "IOPS-month", "MBps-month", "node", "kWh"
]
UsageClass = Literal["on-demand", "spot", "capacity-block"]
InterfaceSupport = Literal["interface", "efa", "efa-only"]
ImageName = Annotated[str, Field(pattern=r"^[a-z0-9.-]+\.[a-z]+(/[a-z0-9._-]+)+:[A-Za-z0-9_.-]+$")]


class Fact(BaseModel):
    """Base of every catalog entry."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Price(Fact):
    """A price in USD. `amount` is None if no publisher of it was found. If sources contradict each other, it
    is the lowest, and `high` the highest.

    `date` is the day the price was read from its publisher, if known (or the last possible day, as `note`
    then states); `note` has what a reader must know (a table of another year, a source that quotes another).
    `verified` is False for an unknown price, an estimate and a figure that other sources contradict.
    """

    amount: Decimal | None
    high: Decimal | None = None
    unit: PriceUnit
    source: str = ""
    date: dt.date | None = None
    verified: bool = True
    note: str = ""

    @property
    def known(self) -> bool:
        """Return whether there is an amount."""
        return self.amount is not None


class SpotPrices(Fact):
    """Spot prices of one type in one region, USD per instance-hour.

    `median` excludes zones whose price equals on-demand (they have no spare capacity) unless all do; `low`
    and `high` include all zones.
    """

    low: Decimal
    median: Decimal
    high: Decimal
    by_zone_id: dict[str, Decimal]
    source: str
    date: dt.date | None = None
    note: str = ""


class NetworkCard(Fact):
    """A network card of an instance type and its interface types."""

    index: int
    max_interfaces: int
    peak_gbps: float
    supports: frozenset[InterfaceSupport]


class InstanceType(Fact):
    """A cloud instance type. `accelerator` is None for types without one, and for one whose accelerator is
    unknown (see `accelerator_unknown`).

    `regions` are those with an offering or a price; a region without data is unknown, not
    rejected. `on_demand` and `capacity_block` are keyed by region. Do not derive the bandwidth of the whole
    type from `cards`: on some types they share it (`network_performance` is the figure). `nvme` holds (count,
    GB each).
    """

    name: str
    vcpus: int
    memory_gib: float
    accelerator: Accelerator | None = None
    cards: tuple[NetworkCard, ...]
    max_efa_interfaces: int = 0
    max_enis: int
    network_performance: str = ""
    nvme: tuple[tuple[int, int], ...] = ()
    usage_classes: frozenset[UsageClass]
    architectures: tuple[str, ...]
    placement_strategies: frozenset[str]
    gpudirect_rdma: bool | None = None
    regions: frozenset[str] = frozenset()
    on_demand: dict[str, Price] = {}
    spot: dict[str, SpotPrices] = {}
    capacity_block: dict[str, Price] = {}
    hardware_source: str = ""
    unverified: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _from_flat(cls, entry: Any) -> Any:
        return nested(entry) if isinstance(entry, dict) else entry

    @property
    def _gpus(self) -> Accelerator | None:
        return self.accelerator if self.accelerator is not None and self.accelerator.kind == "gpu" else None

    @property
    def gpu(self) -> str | None:
        """The GPU's name; None for types without GPUs, and with Neuron devices."""
        return None if self._gpus is None else self._gpus.name

    @property
    def gpu_count(self) -> int:
        """Whole GPUs of an instance."""
        return 0 if self._gpus is None else self._gpus.count

    @property
    def gpu_memory_gib(self) -> float | None:
        """Memory of a GPU, or of the fraction of one."""
        return None if self._gpus is None else self._gpus.memory_gib

    @property
    def gpu_partition(self) -> float:
        """The part of a GPU that an instance has; 1 for whole ones."""
        return 1.0 if self._gpus is None else self._gpus.partition

    @property
    def neuron(self) -> bool:
        """Return whether the type has Neuron devices (Trainium, Inferentia)."""
        return self.accelerator is not None and self.accelerator.kind == "neuron"

    @property
    def accelerator_unknown(self) -> bool:
        """Return whether the type has an accelerator of which nothing was read."""
        return self.accelerator is None and "accelerator" in self.unverified

    @property
    def arm64(self) -> bool:
        """Return whether the type has Arm processors (Graviton), which do not start images of x86_64."""
        return "x86_64" not in self.architectures

    @property
    def efa(self) -> bool:
        """Return whether the type supports EFA."""
        return self.max_efa_interfaces > 0

    @property
    def multi_card(self) -> bool:
        """Return whether the type has several network cards, which excludes public addresses at launch."""
        return len(self.cards) > 1


class CapacityBlockRules(Fact):
    """AWS's rules for Capacity Blocks."""

    daily_steps_up_to_days: int
    weekly_steps_up_to_days: int
    book_ahead_weeks: int
    max_instances_per_block: int
    max_instances_all_blocks: int
    day_boundary_utc: str
    termination_starts_before_end_min: int
    payment: str = ""
    placement: str = ""
    sources: tuple[str, ...]

    def allows_days(self, days: int) -> bool:
        """Return whether a block can last `days` days: first in daily steps, then in weekly ones."""
        if days < 1 or days > self.weekly_steps_up_to_days:
            return False
        return days <= self.daily_steps_up_to_days or days % 7 == 0


class System(Fact):
    """An on-premises system type (`dgx-h100`). Power in kW at the supply, prices in USD per node.

    `memory_gb` (10^9 bytes) and `cpu_sockets` are the minimum of every node of the type. `rails` are the RDMA
    devices of the compute fabric as DOCA-OFED names them. They are empty if they were not read (`unverified`
    lists them then) or depend on what is built in (`rails_of_variants`). `bridges` are adapters that manage
    NVSwitches, which are no fabric adapters.
    """

    name: str
    title: str
    gpus: int
    gpu: str
    gpu_memory_gib: float | None = None
    gpu_tdp_w: int | None = None
    nvswitches: int | None = None
    power_kw_max: Decimal | None = None
    compute_nics: int | None = None
    compute_nic: str = ""
    storage_nics: str = ""
    fabric_gbps: int | None = None
    rails: tuple[str, ...] = ()
    rails_of_variants: dict[str, tuple[str, ...]] = {}
    bridges: tuple[str, ...] = ()
    rack_units: int | None = None
    memory_gb: int | None = None
    cpu_sockets: int | None = None
    price: Price
    sources: tuple[str, ...]
    unverified: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class SoftwareLock(Fact):
    """One software channel: exact versions that belong together, on racks and in the cloud.

    Each version comes from the source in `sources` under its field; `unverified` lists those without a source
    for their compatibility. `fabric_manager` equals `driver` by rule. `eks_ami_driver` is the driver of the
    EKS images, whichever the channel. `driver_eol` is the month (YYYY-MM) in which support of the branch
    ends. `gpus_min_driver` maps a GPU to its first driver branch. `kubernetes` are the minor versions of EKS,
    `kubernetes_releases` the release of each on racks, `cluster_autoscaler` that of the Cluster Autoscaler
    for each, `cni` the version of each CNI's chart, `jobset` and `lws` those of the controllers of JobSet and
    LeaderWorkerSet. `karpenter_digest` is that of the image of the version `karpenter`.
    `doca_key_fingerprint` is of the key that signs NVIDIA's repositories of DOCA. `eks_image`, `slurm_image`
    and `slurm_neuron_image` are the releases of the images of cloud nodes, `eks_addons` the set of versions
    of EKS's add-ons. `neuron` is the version of Neuron's device plugin and scheduler extension,
    `cert_manager` that of what NVSentinel needs for the certificates of its database.
    """

    channel: str
    driver: str
    driver_branch: int
    driver_support: str
    driver_eol: str
    eks_ami_driver: str
    eks_image: str
    slurm_image: str
    slurm_neuron_image: str
    eks_addons: str
    fabric_manager: str
    cuda: str
    nccl: str
    nccl_tests: str
    aws_ofi_nccl: str
    efa_installer: str
    gdrcopy: str
    doca_ofed: str
    doca_key_fingerprint: str
    dcgm: str
    dcgm_exporter: str
    container_toolkit: str
    device_plugin: str
    neuron: str
    gpu_operator: str
    network_operator: str
    nvsentinel: str
    cert_manager: str
    slurm: str
    kubernetes: tuple[str, ...]
    kubernetes_releases: dict[str, str]
    cluster_autoscaler: dict[str, str]
    karpenter: str
    karpenter_digest: str
    containerd: str
    cni: dict[str, str]
    helm: str
    kueue: str
    jobset: str
    lws: str
    gpus_min_driver: dict[str, int] = {}
    notes: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    sources: dict[str, str]


ImageFamily = Literal["eks-al2023", "deep-learning-ubuntu-22.04", "deep-learning-neuron-ubuntu-22.04"]
"""EKS's Amazon Linux 2023, and AWS's Deep Learning Base images of Slurm nodes: with open NVIDIA modules, and
with the Neuron driver."""


class NodeImage(Fact):
    """A release of AWS's machine image of nodes, and the software that it has by its release notes.

    `release` is its day (20260714). Images of EKS differ by version of Kubernetes, and `version` is their
    release as EKS's API writes it (1.35.6-20260714). `name` is the exact name of an AMI that only its name
    identifies. None is a figure that was not read, never one that is absent: what `in_containers` lists is
    not part of the image, and comes with the containers. `efa_module` is the version of the kernel module,
    `efa_installer` that of AWS's installer. `unverified` lists figures that were not read in AWS's notes of
    this image.

    The driver of NVIDIA is that of EKS's image for x86_64 with it. `neuron_driver` is that of the image for
    Neuron devices, and `arm64` says whether the release has an image for Arm processors.
    """

    family: ImageFamily
    release: Annotated[str, Field(pattern=r"^\d{8}$")]
    kubernetes: str = ""
    version: str = ""
    name: str = ""
    driver: str | None = None
    cuda: str | None = None
    nccl: str | None = None
    efa_module: str | None = None
    efa_installer: str | None = None
    aws_ofi_nccl: str | None = None
    container_toolkit: str | None = None
    neuron_driver: str | None = None
    arm64: bool = False
    in_containers: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    source: str
    date: dt.date | None = None
    note: str = ""


class AddonSet(Fact):
    """Versions of EKS's add-ons for one version of Kubernetes. `unverified` lists add-ons whose version
    AWS's own pages were not read for."""

    name: str
    kubernetes: str
    versions: dict[str, Annotated[str, Field(pattern=r"^v\d+\.\d+\.\d+-eksbuild\.\d+$")]]
    unverified: tuple[str, ...] = ()
    sources: tuple[str, ...]


class HelmChart(Fact):
    """A Helm chart. `repository` is that of `helm pull --repo`, or of `oci://<repository>/<name>`."""

    name: str
    version: str
    repository: Annotated[str, Field(pattern=r"^(https?|oci)://")]

    @property
    def file(self) -> str:
        """The name that `helm pull` gives its archive."""
        return f"{self.name}-{self.version}.tgz"


SitePart = Literal["discovery", "shared-adapters", "virtual-functions"]


class ImageSet(Fact):
    """The container images and the chart of one version of a component of Kubernetes, as the roles set it up.

    Images are full names (`quay.io/calico/node:v3.32.2`); those of what the roles disable are left out.
    `parts` has those that only some sites need. `verified` is False for names that were not read at the tag
    of that version, and `note` says why.
    """

    component: str
    version: str
    images: tuple[ImageName, ...]
    parts: dict[SitePart, tuple[ImageName, ...]] = {}
    chart: HelmChart | None = None
    source: str
    verified: bool = True
    note: str = ""


class SlurmRelease(Fact):
    """A major release of Slurm (`25.05`), and the releases whose database, state and jobs it can take over.

    Older releases need several steps, and downgrades are not possible. `unverified` if the release follows
    from the source's rule, but has no line of its own there.
    """

    release: Annotated[str, Field(pattern=r"^\d{2}\.\d{2}$")]
    upgrades_from: tuple[str, ...]
    unverified: bool = False
    source: str


class ServicePrice(Fact):
    """A price of a cloud service that is neither an instance nor a file system (`nat-gateway-hour`).

    `prices` is keyed by region; the key "*" is for every region.
    """

    key: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    title: str
    unit: PriceUnit
    prices: dict[str, Price] = {}


class KeyPrices(Fact):
    """Prices by region of one key of the price table, as read from an account."""

    key: str
    prices: dict[str, Price]


class Zone(Fact):
    """An availability zone. `zone_id` is the same in all accounts, the name differs: the pair of one account
    may not be that of another. None if unknown.
    """

    name: str
    zone_id: str | None = None


class Region(Fact):
    """A cloud region and its zones."""

    name: str
    zones: tuple[Zone, ...]
    zone_ids: tuple[str, ...]
    source: str


class RegionRead(Fact):
    """A region that was read from an account, and whether its spot prices were read too."""

    name: str
    date: dt.date
    spot: bool
