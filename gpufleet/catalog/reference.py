"""Writes docs/reference/catalog.md: `python -m gpufleet.catalog.reference > docs/reference/catalog.md`.

The page has only the shipped catalog, without overrides and ages: it changes with the data files.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from gpufleet.catalog import Catalog, InstanceType, Price, efa_layout, load_catalog
from gpufleet.catalog.listing import all_prices

REGION = "us-east-1"
_INTRODUCTION = f"""\
# Catalog

What ships with gpufleet. `gpufleet catalog` lists and filters the same facts with the age of each
price. `gpufleet catalog refresh` reads instance types, zones and prices from your AWS account into
`.gpufleet/catalog/` of the checkout, which overrides what ships: a type from the account replaces the
shipped hardware facts, a price from the account replaces the shipped price of the same type, region and
kind, and everything else stays as shown here.

This page is written by `python -m gpufleet.catalog.reference`; a test keeps it current.
"unknown" means that no source has the figure: it never counts as 0. `*` marks a figure with a weak or
disputed source. Prices are USD, in {REGION} where they depend on the region.
"""


def reference_text(catalog: Catalog) -> str:
    """Return the whole page."""
    parts = [
        _INTRODUCTION,
        _instances(catalog),
        _interfaces(catalog),
        _capacity_blocks(catalog),
        _systems(catalog),
        _storage(catalog),
        _software(catalog),
        _services(catalog),
        _sources(catalog),
    ]
    return "\n".join(parts)


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(columns)} |", f"|{'|'.join(['---'] * len(columns))}|"]
    lines += [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _figure(price: Price) -> str:
    if price.amount is None:
        return "unknown"
    day = f" ({price.date})" if price.date else " (undated)"
    high = f" to {price.high.normalize():f}" if price.high is not None else ""
    return f"{price.amount.normalize():f}{high}{'' if price.verified else '*'}{day}"


def _unknown(value: object) -> str:
    return "unknown" if value is None or value == "" else str(value)


def _instances(catalog: Catalog) -> str:
    rows = [
        (
            f"`{item.name}`",
            _accelerators(item),
            item.vcpus,
            f"{item.memory_gib:g}",
            item.network_performance,
            len(item.cards),
            item.max_efa_interfaces,
            _figure(catalog.on_demand(item.name, REGION)) if REGION in item.regions else "not offered",
            ", ".join(sorted(item.usage_classes)),
            len(item.regions),
        )
        for item in catalog.find_instances()
    ]
    columns = (
        "type",
        "accelerators",
        "vCPUs",
        "GiB",
        "network",
        "cards",
        "EFA",
        "on-demand USD/h",
        "sold as",
        "regions",
    )
    return "## Instance types\n\n" + _table(columns, rows)


def _accelerators(item: InstanceType) -> str:
    found = item.accelerator
    if found is None:
        return "unknown" if item.accelerator_unknown else "none"
    memory = "unknown memory" if found.memory_gib is None else f"{found.memory_gib:g} GiB"
    return f"{found.devices:g} x {found.name}, {memory}"


def _interfaces(catalog: Catalog) -> str:
    rows = []
    for item in catalog.find_instances(efa=True):
        if not item.multi_card:
            continue
        efa = [entry for entry in efa_layout(item) if entry.interface_type == "efa-only"]
        on_0 = any(entry.network_card_index == 0 for entry in efa)
        others = [entry.network_card_index for entry in efa if entry.network_card_index > 0]
        rows.append(
            (
                f"`{item.name}`",
                "ENA",
                "EFA-only" if on_0 else "none",
                f"EFA-only on card {others[0]}" + (f" to {others[-1]}" if len(others) > 1 else ""),
                len(efa),
            )
        )
    text = (
        "## Network interfaces with EFA\n\n"
        "Types with one card and EFA take ENA as device 0 and EFA-only as device 1 of card 0. Source:\n"
        "docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.md (read 2026-11-21).\n\n"
    )
    columns = ("type", "card 0, device 0", "card 0, device 1", "further cards, device 0", "EFA interfaces")
    return text + _table(columns, rows)


def _capacity_blocks(catalog: Catalog) -> str:
    rules = catalog.capacity_block_rules
    lines = [
        f"1 to {rules.daily_steps_up_to_days} days, whole weeks up to {rules.weekly_steps_up_to_days} days",
        f"at most {rules.max_instances_per_block} instances a block, {rules.max_instances_all_blocks} in all",
        f"booked up to {rules.book_ahead_weeks} weeks ahead; days begin at {rules.day_boundary_utc} UTC",
        f"instances are terminated from {rules.termination_starts_before_end_min} minutes before the end",
        f"payment: {rules.payment}",
        f"placement: {rules.placement}",
    ]
    sources = "".join(f"- {source}\n" for source in rules.sources)
    return "## Capacity Blocks\n\n" + "".join(f"- {line}\n" for line in lines) + f"\nSources:\n\n{sources}"


def _systems(catalog: Catalog) -> str:
    rows = [
        (
            f"`{item.name}`",
            f"{item.gpus} x {item.gpu}",
            _unknown(item.power_kw_max),
            f"{item.compute_nics} x {item.compute_nic}" if item.compute_nics else "unknown",
            _unknown(item.rack_units),
            _figure(item.price),
            "; ".join(item.notes),
        )
        for item in catalog.systems.values()
    ]
    columns = ("name", "GPUs", "max kW", "compute network cards", "rack units", "USD a node", "notes")
    rails = [
        (f"`{item.name}`", what, ", ".join(f"`{name}`" for name in names))
        for item in catalog.systems.values()
        for what, names in (
            ("rails", item.rails),
            *((f"rails {variant}", names) for variant, names in item.rails_of_variants.items()),
            ("NVSwitch bridges", item.bridges),
        )
        if names
    ]
    devices = "### RDMA devices of systems\n\n" + _table(("name", "devices", "names"), rails)
    return "## On-premises systems\n\n" + _table(columns, rows) + "\n" + devices


def _storage(catalog: Catalog) -> str:
    rows = [
        (
            tier.deployment,
            _unknown(tier.throughput) if tier.throughput is not None else "fixed",
            f"{tier.first_gib} or multiples of {tier.multiple_gib}",
            f"multiples of {tier.efa_multiple_gib}" if tier.efa_multiple_gib else "no EFA",
            _figure(catalog.lustre_price(tier, REGION)),
        )
        for tier in catalog.lustre_tiers
    ]
    columns = ("deployment", "MB/s/TiB", "GiB", "GiB with EFA", "USD per GB-month")
    return "## FSx for Lustre\n\n" + _table(columns, rows)


# Fields of a lock that hold more than one version.
_BY_NAME = frozenset({"gpus_min_driver", "kubernetes", "kubernetes_releases", "cluster_autoscaler", "cni"})
_DIGESTS = frozenset({"karpenter_digest"})


def _software(catalog: Catalog) -> str:
    locks = list(catalog.locks.values())
    fields = [
        name
        for name in type(locks[0]).model_fields
        if name not in {"channel", "notes", "unverified", "sources", *_BY_NAME, *_DIGESTS}
    ]
    rows: list[Sequence[object]] = [
        (
            name.replace("_", " "),
            *(f"{getattr(lock, name)}{'*' if name in lock.unverified else ''}" for lock in locks),
        )
        for name in fields
    ]
    rows.append(("kubernetes", *(", ".join(lock.kubernetes) for lock in locks)))
    rows.append(("kubernetes of racks", *(", ".join(lock.kubernetes_releases.values()) for lock in locks)))
    rows.append(("cluster autoscaler", *(", ".join(lock.cluster_autoscaler.values()) for lock in locks)))
    for name in locks[0].cni:
        mark = ["*" if "cni" in lock.unverified else "" for lock in locks]
        rows.append((name, *(f"{lock.cni[name]}{star}" for lock, star in zip(locks, mark, strict=True))))
    notes = "".join(f"- {lock.channel}: {note}\n" for lock in locks for note in lock.notes)
    return (
        "## Software channels\n\n"
        + _table(("component", *(lock.channel for lock in locks)), rows)
        + "\n`*`: no source states that it is compatible with the rest.\n\n"
        + notes
    )


def _services(catalog: Catalog) -> str:
    rows = [
        (f"`{item.key}`", item.title, region, _figure(price), f"per {item.unit}", price.note)
        for item in catalog.services.values()
        for region, price in item.prices.items()
    ]
    rows += [
        (
            f"`{item.key}`",
            item.title,
            "all",
            "unknown",
            f"per {item.unit}",
            "no source yet: `catalog refresh`",
        )
        for item in catalog.services.values()
        if not item.prices
    ]
    return "## Cloud services\n\n" + _table(("key", "service", "region", "USD", "unit", "note"), rows)


def _sources(catalog: Catalog) -> str:
    counts: dict[tuple[str, str], int] = {}
    for row in all_prices(catalog):
        if row.price.source:
            key = (row.price.source, str(row.price.date or "undated"))
            counts[key] = counts.get(key, 0) + 1
    rows = [(source, day, count) for (source, day), count in sorted(counts.items())]
    hardware = sorted({item.hardware_source for item in catalog.instances.values()})
    zones = sorted({region.source for region in catalog.regions.values()})
    return (
        "## Sources\n\n"
        + "".join(f"- hardware of instance types: {text}\n" for text in hardware)
        + "".join(f"- regions and zones: {text}\n" for text in zones)
        + "\n"
        + _table(("source of prices", "day", "prices"), rows)
    )


if __name__ == "__main__":
    sys.stdout.write(reference_text(load_catalog()))
