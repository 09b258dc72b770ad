"""Types of the catalog: facts about what can be bought and run, each with source and date.

An unknown figure is None with `verified=False`, never 0. Values come from the data files beside
this module (`data/`, one file a kind) and are never typed into code.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from gpufleet.kinds import LustreDeployment

PriceUnit = Literal[
    "instance-hour", "GB-month", "hour", "month", "GB", "IOPS-month", "MBps-month", "node", "kWh"
]
UsageClass = Literal["on-demand", "spot", "capacity-block"]
InterfaceSupport = Literal["interface", "efa", "efa-only"]


class Fact(BaseModel):
    """Base of every catalog entry."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Price(Fact):
    """A price in USD. `amount` is None when nobody published one that was read.

    `date` is the day the price was read off its publisher, when that is known (or the last day on
    which it can have been, as `note` then says); `note` carries what a reader must know (a table of
    another year, a source that quotes another). `verified` is False for an unknown price, an
    estimate and a figure that other sources contradict.
    """

    amount: Decimal | None
    unit: PriceUnit
    source: str = ""
    date: dt.date | None = None
    verified: bool = True
    note: str = ""

    @property
    def known(self) -> bool:
        """Whether there is an amount at all."""
        return self.amount is not None


class SpotPrices(Fact):
    """Spot prices of one type in one region, USD per instance-hour.

    `median` leaves out zones whose price equals on-demand (that is how a zone without spare
    capacity shows) unless all do; `low` and `high` are over all zones read.
    """

    low: Decimal
    median: Decimal
    high: Decimal
    by_zone_id: dict[str, Decimal]
    source: str
    date: dt.date | None = None
    note: str = ""


class NetworkCard(Fact):
    """A network card of an instance type and the interface types it takes."""

    index: int
    max_interfaces: int
    peak_gbps: float
    supports: frozenset[InterfaceSupport]


class InstanceType(Fact):
    """A cloud instance type. `gpu` is None for types without an accelerator, and for one whose
    accelerator was not read (`unverified` then names "gpu").

    `gpu_count` counts whole devices (0 for a fraction, see `gpu_partition`); `gpu_memory_gib` is
    that of one device, or of the fraction. `regions` are those where an offering or a price was
    seen; a region in none of the data is unknown, not refused. `on_demand` and `capacity_block`
    are keyed by region; in `capacity_block` the key "*" is a price published for most regions.
    Never derive the bandwidth of the whole type from `cards`: cards share it on some types
    (`network_performance` is the figure). `nvme` holds (count, GB each).
    """

    name: str
    vcpus: int
    memory_gib: float
    gpu: str | None = None
    gpu_count: int = 0
    gpu_memory_gib: float | None = None
    gpu_partition: float = 1.0
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

    @property
    def efa(self) -> bool:
        """Whether the type takes EFA interfaces at all."""
        return self.max_efa_interfaces > 0

    @property
    def multi_card(self) -> bool:
        """Whether the type has more than one network card (no public addresses at launch then)."""
        return len(self.cards) > 1


class CapacityBlockRules(Fact):
    """What AWS offers as Capacity Blocks."""

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
        """Whether a block of `days` days can be had: daily steps first, weekly steps after."""
        if days < 1 or days > self.weekly_steps_up_to_days:
            return False
        return days <= self.daily_steps_up_to_days or days % 7 == 0


class System(Fact):
    """An on-premises system type (`dgx-h100`). Power in kW at the supply, prices in USD a node.

    `memory_gb` (10^9 bytes) and `cpu_sockets` are what every node of the type has at least.
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
    rack_units: int | None = None
    memory_gb: int | None = None
    cpu_sockets: int | None = None
    price: Price
    sources: tuple[str, ...]
    unverified: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class LustreTier(Fact):
    """One FSx for Lustre tier. `throughput` is MB/s per TiB (None: fixed by the deployment type).

    Capacities are `first_gib` or any multiple of `multiple_gib`; an EFA-enabled file system takes
    multiples of `efa_multiple_gib` alone (None: EFA is not offered). `network_*` and `disk_*` are
    MB/s per TiB, `cache_gib_per_tib` is server memory.
    """

    deployment: LustreDeployment
    throughput: int | None
    first_gib: int
    multiple_gib: int
    efa_multiple_gib: int | None = None
    replicated: bool | None = None
    network_baseline: int | None = None
    network_burst: int | None = None
    disk_read_baseline: int | None = None
    disk_write_baseline: int | None = None
    disk_burst: int | None = None
    cache_gib_per_tib: float | None = None
    prices: dict[str, Price]
    source: str
    notes: tuple[str, ...] = ()


class SoftwareLock(Fact):
    """One software channel: exact versions that belong together, on racks and in the cloud.

    Each version was read from the source named in `sources` under its field; `unverified` names
    those whose fit with the others no source states. `fabric_manager` equals `driver` by rule.
    `eks_ami_driver` is what the EKS images that were read carry, whichever the channel.
    `driver_eol` is the month (YYYY-MM) in which support of the branch ends. `gpus_min_driver` maps
    a GPU to the first driver branch in which it was seen. `kubernetes` are the minors that EKS runs,
    `kubernetes_releases` the release that racks install of each minor, `cni` the version of each CNI's chart.
    """

    channel: str
    driver: str
    driver_branch: int
    driver_support: str
    driver_eol: str
    eks_ami_driver: str
    fabric_manager: str
    cuda: str
    nccl: str
    nccl_tests: str
    aws_ofi_nccl: str
    efa_installer: str
    gdrcopy: str
    doca_ofed: str
    dcgm: str
    dcgm_exporter: str
    container_toolkit: str
    device_plugin: str
    gpu_operator: str
    network_operator: str
    slurm: str
    kubernetes: tuple[str, ...]
    kubernetes_releases: dict[str, str]
    containerd: str
    cni: dict[str, str]
    helm: str
    kueue: str
    gpus_min_driver: dict[str, int] = {}
    notes: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    sources: dict[str, str]


class SlurmRelease(Fact):
    """A major release of Slurm (`25.05`), and those whose database, state and running jobs it takes over.

    Anything older has to go there in steps, and nothing goes back. `unverified` where the release follows
    from the rule that the source states, and its own line was not read.
    """

    release: Annotated[str, Field(pattern=r"^\d{2}\.\d{2}$")]
    upgrades_from: tuple[str, ...]
    unverified: bool = False
    source: str


class ServicePrice(Fact):
    """A price of a cloud service that is neither an instance nor a file system (`nat-gateway-hour`).

    `prices` is keyed by region; the key "*" holds for every region.
    """

    key: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    title: str
    unit: PriceUnit
    prices: dict[str, Price]


class Zone(Fact):
    """An availability zone. `zone_id` is the same for everybody, the name is each account's own:
    the pair read from one account may be another in yours. None where it was not read.
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
    """That an account was asked about a region, and whether it answered about spot prices too."""

    name: str
    date: dt.date
    spot: bool
