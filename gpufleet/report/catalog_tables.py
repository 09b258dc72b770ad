"""The catalog as tables within 100 columns: facts, prices and their age.

An unknown figure is shown as `unknown`, one that is not sold or offered as `-`, and a figure whose source is
weak or disputed ends in `*`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Literal

from rich.table import Table
from rich.text import Text

from gpufleet.catalog import (
    Catalog,
    InstanceType,
    LustreTier,
    NodeImage,
    Price,
    SoftwareLock,
    SpotPrices,
    System,
    age_text,
    is_stale,
)
from gpufleet.catalog.listing import PriceRow
from gpufleet.catalog.models import UsageClass

LEGEND = "'-' not sold or not offered there, 'unknown' no source has it, '*' a weak or disputed source"
NONE = "-"


def figure(price: Price) -> str:
    """Format the amount to the cent (4 decimals below 1 USD), or `unknown`; `*` marks an uncertain one."""
    if price.amount is None:
        return "unknown"
    high = f" to {_plain(price.high)}" if price.high is not None else ""
    return _plain(price.amount) + high + ("" if price.verified else "*")


def _plain(amount: Decimal) -> str:
    places = Decimal("0.01") if amount >= 1 else Decimal("0.0001")
    text = f"{amount.quantize(places, ROUND_HALF_EVEN):,f}"
    return text if amount >= 1 else text.rstrip("0")


def _age(price: Price | SpotPrices, today: dt.date) -> Text:
    return Text(age_text(price, today), style="yellow" if is_stale(price, today) else "dim")


def _or_unknown(value: object) -> str:
    return "unknown" if value is None or value == "" else str(value)


def _table(title: str, *columns: str, right: Iterable[str] = ()) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0), header_style="bold")
    for place, column in enumerate(columns):
        justify: Literal["left", "right"] = "right" if column in right else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=place == 0)
    return table


def instances_table(
    instances: Iterable[InstanceType], catalog: Catalog, region: str, today: dt.date
) -> Table:
    """Return instance types with their prices in `region`; the age is that of the on-demand price."""
    numbers = ("count", "GiB", "vCPUs", "EFA", "on-demand", "spot", "block", "age")
    table = _table(
        f"Instance types, USD per hour in {region}",
        *("type", "accelerator", "count", "GiB", "vCPUs", "EFA", "network"),
        *("on-demand", "spot", "block", "age"),
        right=numbers,
    )
    for item in instances:
        on_demand = catalog.on_demand(item.name, region)
        spot = catalog.spot(item.name, region)
        shown: dict[UsageClass, str] = {
            "on-demand": figure(on_demand),
            "spot": _plain(spot.median) if spot else "unknown",
            "capacity-block": figure(catalog.capacity_block(item.name, region)),
        }
        sold = item.usage_classes if region in item.regions else frozenset()
        table.add_row(
            item.name,
            *_accelerator(item),
            str(item.vcpus),
            str(item.max_efa_interfaces) if item.efa else NONE,
            _network(item),
            *(text if usage in sold else NONE for usage, text in shown.items()),
            _age(on_demand, today) if on_demand.known else NONE,
        )
    return table


def _network(item: InstanceType) -> str:
    return item.network_performance.replace("Up to ", "to ").replace(" Gigabit", " Gb/s")


def _accelerator(item: InstanceType) -> tuple[str, str, str]:
    """Return name, number and memory of a type's GPUs or Neuron devices."""
    found = item.accelerator
    if found is None:
        return ("unknown",) * 3 if item.accelerator_unknown else (NONE,) * 3
    count = f"1/{round(1 / found.partition)}" if found.partition < 1 else str(found.count)
    return found.name, count, "unknown" if found.memory_gib is None else f"{found.memory_gib:.0f}"


def systems_table(systems: Iterable[System], today: dt.date) -> Table:
    """Return on-premises systems: power at the supply, compute fabric, price per node."""
    table = _table(
        "On-premises systems, USD a node",
        *("name", "GPU", "GPUs", "GiB", "max kW", "compute network cards", "Gb/s", "U", "price", "age"),
        right=("GPUs", "GiB", "max kW", "Gb/s", "U", "price", "age"),
    )
    for item in systems:
        cards = f"{item.compute_nics} x {item.compute_nic}" if item.compute_nics else "unknown"
        table.add_row(
            item.name,
            item.gpu,
            str(item.gpus),
            "unknown" if item.gpu_memory_gib is None else f"{item.gpu_memory_gib:.0f}",
            _or_unknown(item.power_kw_max),
            cards,
            _or_unknown(item.fabric_gbps),
            _or_unknown(item.rack_units),
            figure(item.price),
            _age(item.price, today) if item.price.known else NONE,
        )
    return table


def storage_table(tiers: Iterable[LustreTier], catalog: Catalog, region: str, today: dt.date) -> Table:
    """Return FSx for Lustre tiers: throughput, possible sizes, price per GB-month."""
    table = _table(
        f"FSx for Lustre, USD per GB-month in {region}",
        *("deployment", "MB/s/TiB", "sizes (GiB)", "sizes with EFA (GiB)", "price", "age"),
        right=("MB/s/TiB", "price", "age"),
    )
    for tier in tiers:
        price = catalog.lustre_price(tier, region)
        table.add_row(
            tier.deployment,
            str(tier.throughput) if tier.throughput is not None else f"{tier.disk_read_baseline} (fixed)",
            f"{tier.first_gib:,} or multiples of {tier.multiple_gib:,}",
            f"multiples of {tier.efa_multiple_gib:,}" if tier.efa_multiple_gib else NONE,
            figure(price),
            _age(price, today) if price.known else NONE,
        )
    return table


_SOFTWARE_ROWS = (
    *("fabric_manager", "cuda", "nccl", "nccl_tests", "aws_ofi_nccl", "efa_installer", "gdrcopy"),
    *("doca_ofed", "dcgm", "dcgm_exporter", "container_toolkit", "device_plugin"),
    *("gpu_operator", "network_operator", "slurm"),
)


def software_table(locks: Iterable[SoftwareLock]) -> Table:
    """Return software channels side by side, one component per row."""
    channels = list(locks)
    table = _table("Software channels", "component", *(lock.channel for lock in channels))
    table.add_row(
        "driver", *(f"{lock.driver} ({lock.driver_support}, ends {lock.driver_eol})" for lock in channels)
    )
    for name in _SOFTWARE_ROWS:
        versions = (getattr(lock, name) + ("*" if name in lock.unverified else "") for lock in channels)
        table.add_row(name.replace("_", " "), *versions)
    table.add_row("kubernetes", *(", ".join(lock.kubernetes) for lock in channels))
    return table


def node_images_table(images: Iterable[NodeImage], locks: Iterable[SoftwareLock]) -> Table:
    """Return releases of images of cloud nodes, and the channels that lock them."""
    channels = list(locks)
    columns = ("image", "release", "Kubernetes", "driver", "CUDA", "NCCL", "EFA", "channels")
    table = _table("Images of cloud nodes", *columns)
    for image in images:
        kubernetes = bool(image.kubernetes)
        locked = [
            lock.channel
            for lock in channels
            if image.release == (lock.eks_image if kubernetes else lock.slurm_image)
        ]
        table.add_row(
            image.family,
            image.release,
            image.kubernetes or NONE,
            *(_of_image(image, name) for name in ("driver", "cuda", "nccl")),
            _of_image(image, "efa_module" if kubernetes else "efa_installer"),
            ", ".join(locked) or NONE,
        )
    return table


def _of_image(image: NodeImage, name: str) -> str:
    if name in image.in_containers:
        return "in containers"
    version = getattr(image, name)
    return f"{version or 'unknown'}{'*' if version and name in image.unverified else ''}"


def prices_table(rows: Iterable[PriceRow], today: dt.date) -> Table:
    """Return the prices of the rows, one per line."""
    table = _table("Prices, USD", "what", "kind", "region", "price", "unit", "age", right=("price", "age"))
    for row in rows:
        price = row.price
        shown = _plain(price.median) if isinstance(price, SpotPrices) else figure(price)
        unit = "instance-hour" if isinstance(price, SpotPrices) else price.unit
        known = isinstance(price, SpotPrices) or price.known
        table.add_row(
            row.what, row.kind, row.region, shown, f"per {unit}", _age(price, today) if known else NONE
        )
    return table
