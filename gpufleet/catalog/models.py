"""Types of the catalog: facts about what can be bought and run, each with source and date.

An unknown figure is None with `verified=False`, never 0. Values come from the data files beside
this module and are never typed into code.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

UsageClass = Literal["on-demand", "spot", "capacity-block"]
InterfaceSupport = Literal["interface", "efa", "efa-only"]


class Fact(BaseModel):
    """Base of every catalog entry."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Price(Fact):
    """A price in USD. `amount` is None when nobody published one that was read.

    `date` is the day the price was read off its publisher, when that is known; `note` carries what
    a reader must know (a table of another year, a source that quotes another).
    """

    amount: Decimal | None
    unit: Literal["instance-hour", "GB-month", "hour", "GB", "IOPS-month", "MBps-month", "node", "kWh"]
    source: str = ""
    date: dt.date | None = None
    verified: bool = True
    note: str = ""


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


class NetworkCard(Fact):
    """A network card of an instance type and the interface types it takes."""

    index: int
    max_interfaces: int
    peak_gbps: float
    supports: frozenset[InterfaceSupport]


class InstanceType(Fact):
    """A cloud instance type. `gpu` is None for types without an accelerator.

    `gpu_count` counts whole devices (0 for a fraction, see `gpu_partition`). `regions` are those
    where an offering or a price was seen; a region in none of the data is unknown, not refused.
    """

    name: str
    vcpus: int
    memory_gib: float
    gpu: str | None = None
    gpu_count: int = 0
    gpu_memory_gib: float = 0.0
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
    sources: tuple[str, ...]


class System(Fact):
    """An on-premises system type (`dgx-h100`). Power in kW at the supply, prices in USD a node."""

    name: str
    title: str
    gpus: int
    gpu: str
    gpu_memory_gib: float | None = None
    nvswitches: int | None = None
    power_kw_max: Decimal | None = None
    compute_nics: int | None = None
    compute_nic: str = ""
    storage_nics: str = ""
    fabric_gbps: int | None = None
    rack_units: int | None = None
    price: Price
    sources: tuple[str, ...]
    unverified: tuple[str, ...] = ()


class LustreTier(Fact):
    """One FSx for Lustre tier. `throughput` is MB/s per TiB (None: fixed by the deployment type)."""

    deployment: Literal["PERSISTENT_2", "PERSISTENT_1", "SCRATCH_2"]
    throughput: int | None
    first_gib: int
    multiple_gib: int
    efa_multiple_gib: int | None = None
    replicated: bool | None = None
    prices: dict[str, Price]
    source: str


class SoftwareLock(Fact):
    """One software channel: exact versions that belong together, on racks and in the cloud.

    Versions that were not read from a source are None and named in `unverified`.
    `fabric_manager` equals `driver` by rule. `gpus_min_driver` maps a GPU to its first branch.
    """

    channel: str
    driver: str
    driver_branch: int
    driver_support: str
    driver_eol: str
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
    gpus_min_driver: dict[str, int] = {}
    notes: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    sources: dict[str, str]


class ServicePrice(Fact):
    """A price of a cloud service that is neither an instance nor a file system (`nat-gateway`)."""

    key: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    title: str
    prices: dict[str, Price]
