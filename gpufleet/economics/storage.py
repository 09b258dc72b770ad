"""Storage for checkpoints and data: the throughput needed, and FSx for Lustre file systems that give it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Literal

from msgspec import Struct

from gpufleet.catalog import Catalog
from gpufleet.catalog.storage_models import LustreTier
from gpufleet.economics.quantities import GB, GIB
from gpufleet.errors import InputError
from gpufleet.pricing.lustre import price_lustre
from gpufleet.pricing.rates import Prices, UnpricedError

GIB_PER_TIB_OF_FSX = 1000
"""FSx sells 1,200 GiB as 1.2 TiB, and its throughput per TiB follows that: EFA steps are all 4,800 MB/s
(125 x 38.4 = 250 x 19.2 = 500 x 9.6 = 1000 x 4.8; FSx for Lustre User Guide)."""

LINK_GBPS = 400
LINK_EFFICIENCY = 392 / 400
"""Line rate that perftest measures on an NDR link of 400 Gb/s (Azure's and NVIDIA's figures: 392)."""


class StorageOption(Struct, frozen=True):
    """A file system that is fast and large enough. Amounts are USD per month; None if no price is known."""

    deployment: str
    throughput: int | None
    capacity_gib: int
    bytes_s: float
    efa: bool
    bound_by: Literal["throughput", "capacity"]
    monthly_minimum: Decimal | None
    monthly: Decimal | None
    monthly_maximum: Decimal | None
    source: str
    price_date: str | None
    note: str


class StorageSizing(Struct, frozen=True):
    """What moving data within a time needs. `links` of 400 Gb/s carry it to racks."""

    bytes: float
    within_s: float
    bytes_s: float
    capacity_gib: int
    links: int
    options: tuple[StorageOption, ...]


def size_storage(
    catalog: Catalog,
    size_bytes: float,
    within_s: float,
    *,
    region: str,
    keep: int = 2,
    efa: bool = False,
    direction: Literal["read", "write"] = "write",
) -> StorageSizing:
    """Return the throughput, and the file systems that give it, the least expensive first.

    A file system holds `keep` times the data: while a checkpoint is written, the one before is still needed.
    With `efa` only EFA-enabled sizes count. Scratch file systems write at half the speed that they read.
    Options without a price come last.
    """
    if keep < 1:
        raise InputError(f"keep is {keep}; at least one checkpoint is kept", remedy="write --keep 2")
    if region not in catalog.regions:
        raise InputError(f"unknown region {region!r}", remedy="`gpufleet catalog regions` lists them")
    rate = size_bytes / within_s
    wanted_gib = math.ceil(keep * size_bytes / GIB)
    found = [
        option
        for tier in catalog.lustre_tiers
        for option in _options(catalog, tier, rate, wanted_gib, region, efa, direction)
    ]
    found.sort(key=lambda item: (item.monthly is None, item.monthly or 0, item.capacity_gib))
    return StorageSizing(
        bytes=size_bytes,
        within_s=within_s,
        bytes_s=rate,
        capacity_gib=wanted_gib,
        links=math.ceil(rate / (LINK_GBPS / 8 * GB * LINK_EFFICIENCY)),
        options=tuple(found),
    )


def lustre_throughput_bytes_s(
    tier: LustreTier, gib: int, direction: Literal["read", "write"]
) -> float | None:
    """Return the baseline throughput of the disks, None if it is not known. FSx's MB are 10^6 bytes."""
    per_tib = tier.disk_read_baseline if direction == "read" else tier.disk_write_baseline
    return None if per_tib is None else per_tib * 1e6 * gib / GIB_PER_TIB_OF_FSX


def _options(
    catalog: Catalog,
    tier: LustreTier,
    rate: float,
    wanted_gib: int,
    region: str,
    efa: bool,
    direction: Literal["read", "write"],
) -> Iterator[StorageOption]:
    per_gib = lustre_throughput_bytes_s(tier, 1, direction)
    if per_gib is None or (efa and tier.efa_multiple_gib is None):
        return
    for_rate = math.ceil(rate / per_gib)
    gib = _sold(tier, max(for_rate, wanted_gib), efa)
    prices = Prices(catalog, region)
    minimum = monthly = maximum = None
    source, date, note = "", None, ""
    try:
        cost = price_lustre(prices, tier.deployment, gib, tier.throughput)
    except UnpricedError as error:
        note = str(error)
    else:
        minimum, monthly, maximum = cost.minimum, cost.expected, cost.maximum
        (rate_used,) = cost.rates
        source, date, note = rate_used.source, rate_used.date, rate_used.note
    yield StorageOption(
        deployment=tier.deployment,
        throughput=tier.throughput,
        capacity_gib=gib,
        bytes_s=per_gib * gib,
        efa=efa,
        bound_by="throughput" if for_rate > wanted_gib else "capacity",
        monthly_minimum=minimum,
        monthly=monthly,
        monthly_maximum=maximum,
        source=source,
        price_date=date,
        note=note,
    )


def _sold(tier: LustreTier, gib: int, efa: bool) -> int:
    """Return the smallest capacity that is sold and not below `gib`."""
    step = (tier.efa_multiple_gib if efa else None) or tier.multiple_gib
    if not efa and gib <= tier.first_gib:
        return tier.first_gib
    return math.ceil(gib / step) * step
