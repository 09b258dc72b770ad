"""`gpufleet catalog`: instance types, systems, storage, software and prices, with sources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Annotated, Any, get_args

import typer

from gpufleet.catalog import (
    Catalog,
    InstanceType,
    Price,
    SpotPrices,
    System,
)
from gpufleet.catalog.catalog import nearest
from gpufleet.catalog.listing import (
    PriceRow,
    all_prices,
    instance_prices,
    storage_prices,
    system_prices,
)
from gpufleet.catalog.models import Fact, UsageClass
from gpufleet.cli import catalog_shown, completion
from gpufleet.cli.arguments import Json
from gpufleet.cli.catalog_refresh import refresh
from gpufleet.cli.catalog_shown import facts_to_json, price_to_json, show
from gpufleet.cli.checkout_catalog import checkout_catalog
from gpufleet.cli.commands import CommandGroup
from gpufleet.cli.console import emit_json
from gpufleet.errors import InputError

DEFAULT_REGION = "us-east-1"


class _InstancesByDefault(CommandGroup):
    """`gpufleet catalog --gpu H100` is `gpufleet catalog instances --gpu H100`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            args = ["instances", *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


app = typer.Typer(
    cls=_InstancesByDefault,
    help="List instance types (default), systems, storage, software and prices.",
    rich_markup_mode=None,
)
app.command()(refresh)

Gpu = Annotated[
    str | None,
    typer.Option(
        "--gpu", help="Only this GPU or Neuron device, such as H100.", autocompletion=completion.gpus
    ),
]
MinMemory = Annotated[
    int,
    typer.Option("--min-memory", min=0, metavar="GIB", help="At least this much memory of each GPU, in GiB."),
]
MaxPrice = Annotated[
    float | None,
    typer.Option("--max-price", min=0, metavar="USD", help="At most this price; unknown prices are omitted."),
]
Words = Annotated[
    list[str] | None,
    typer.Option("--text", metavar="TEXT", help="Only entries that contain this text. Can be repeated."),
]
RegionOption = Annotated[
    str | None, typer.Option("--region", help=f"Prices of this region; default {DEFAULT_REGION}.")
]
MinGpus = Annotated[int, typer.Option("--min-gpus", min=0, help="At least this many GPUs or devices.")]
Efa = Annotated[bool | None, typer.Option("--efa/--no-efa", help="Only types with (without) EFA.")]
Usage = Annotated[
    str | None, typer.Option("--usage", help="Only types sold as on-demand, spot or capacity-block.")
]
Sources = Annotated[bool, typer.Option("--sources", help="Show the source of each figure.")]


@app.command()
def instances(
    gpu: Gpu = None,
    region: RegionOption = None,
    min_gpus: MinGpus = 0,
    min_memory: MinMemory = 0,
    efa: Efa = None,
    usage: Usage = None,
    max_price: MaxPrice = None,
    text: Words = None,
    sources: Sources = False,
    json: Json = False,
) -> None:
    """List cloud instance types: GPUs, EFA, network and prices."""
    from gpufleet.report.catalog_tables import LEGEND, instances_table

    catalog = checkout_catalog()
    region = _known("region", region, _regions(catalog))
    found = _find(catalog, gpu, region, min_gpus, efa, usage)
    where = region or DEFAULT_REGION
    found = [
        item
        for item in found
        if _memory(item) >= min_memory
        and _costs_at_most(max_price, _amount(item, where, usage or "on-demand"))
        and _mentions(item, text)
    ]
    rows = list(instance_prices(found, where))
    if json:
        emit_json(facts_to_json("instances", found, rows) | {"region": where})
        return
    table = instances_table(found, catalog, where, catalog_shown.today())
    notes = [f"{item.name}: {note}" for item in found for note in item.notes] if sources else []
    show(table, rows, sources, count=len(found), legend=LEGEND + ". Spot is the median.", notes=notes)


@app.command()
def systems(
    gpu: Gpu = None,
    min_gpus: MinGpus = 0,
    min_memory: MinMemory = 0,
    max_price: MaxPrice = None,
    text: Words = None,
    sources: Sources = False,
    json: Json = False,
) -> None:
    """List on-premises systems: power, network cards and price per node."""
    from gpufleet.report.catalog_tables import LEGEND, systems_table

    catalog = checkout_catalog()
    wanted = _known("GPU", gpu, {item.gpu for item in catalog.systems.values()})
    found = [
        item
        for item in catalog.systems.values()
        if (wanted is None or item.gpu == wanted)
        and item.gpus >= min_gpus
        and (item.gpu_memory_gib or 0) >= min_memory
        and _costs_at_most(max_price, item.price.amount)
        and _mentions(item, text)
    ]
    rows = list(system_prices(found))
    if json:
        emit_json(facts_to_json("systems", found, rows))
        return
    notes = _system_notes(found) if sources else []
    show(
        systems_table(found, catalog_shown.today()),
        rows,
        sources,
        count=len(found),
        legend=LEGEND,
        notes=notes,
    )


@app.command()
def storage(
    region: RegionOption = None,
    max_price: MaxPrice = None,
    text: Words = None,
    sources: Sources = False,
    json: Json = False,
) -> None:
    """List FSx for Lustre tiers: throughput, capacities and price."""
    from gpufleet.report.catalog_tables import LEGEND, storage_table

    catalog = checkout_catalog()
    where = _known("region", region, _regions(catalog)) or DEFAULT_REGION
    tiers = [
        tier
        for tier in catalog.lustre_tiers
        if _costs_at_most(max_price, price.amount if (price := tier.prices.get(where)) else None)
        and _mentions(tier, text)
    ]
    rows = list(storage_prices(tiers, where))
    if json:
        emit_json(facts_to_json("storage", tiers, rows) | {"region": where})
        return
    notes = sorted({tier.source for tier in tiers} | {note for tier in tiers for note in tier.notes})
    table = storage_table(tiers, catalog, where, catalog_shown.today())
    show(table, rows, sources, count=len(tiers), legend=LEGEND, notes=notes if sources else [])


@app.command()
def software(text: Words = None, sources: Sources = False, json: Json = False) -> None:
    """List software channels: compatible versions for racks and cloud."""
    from gpufleet.report.catalog_tables import software_table

    locks = [lock for lock in checkout_catalog().locks.values() if _mentions(lock, text)]
    if json:
        emit_json(facts_to_json("software", locks, []))
        return
    notes = [f"{lock.channel}: {note}" for lock in locks for note in lock.notes]
    notes += [f"{lock.channel} {name}: {source}" for lock in locks for name, source in lock.sources.items()]
    legend = "'*' read from a source that does not state its compatibility with the rest"
    show(software_table(locks), [], sources, count=len(locks), legend=legend, notes=notes if sources else [])


@app.command("node-images")
def node_images(text: Words = None, sources: Sources = False, json: Json = False) -> None:
    """List releases of AWS's images of cloud nodes: driver, CUDA, NCCL and EFA of each."""
    from gpufleet.report.catalog_tables import node_images_table

    catalog = checkout_catalog()
    found = [image for image in catalog.node_images.values() if _mentions(image, text)]
    if json:
        emit_json(facts_to_json("node-images", found, []))
        return
    legend = "'*' not read in AWS's notes of this image, 'unknown' no source has it"
    notes = sorted({f"{image.family}: {image.source}" for image in found})
    table = node_images_table(found, catalog.locks.values())
    show(table, [], sources, count=len(found), legend=legend, notes=notes if sources else [])


@app.command()
def prices(
    gpu: Gpu = None,
    region: RegionOption = None,
    usage: Usage = None,
    max_price: MaxPrice = None,
    text: Words = None,
    sources: Sources = False,
    json: Json = False,
) -> None:
    """List all prices: instances, storage, services, systems; by default in all regions."""
    from gpufleet.report.catalog_tables import LEGEND, prices_table

    catalog = checkout_catalog()
    region = _known("region", region, _regions(catalog))
    rows: Sequence[PriceRow]
    if gpu is None and usage is None:
        rows = all_prices(catalog, region)
    else:
        found = _find(catalog, gpu, region, 0, None, usage)
        rows = [row for row in instance_prices(found, region) if usage is None or row.kind == usage]
    rows = [
        row
        for row in rows
        if _costs_at_most(max_price, _amount_of(row.price))
        and _has_words(f"{row.what} {row.kind} {row.region} {row.price.model_dump_json()}", text)
    ]
    if json:
        emit_json({"kind": "prices", "prices": [price_to_json(row) for row in rows]})
        return
    show(prices_table(rows, catalog_shown.today()), rows, sources, count=len(rows), legend=LEGEND)


def _find(
    catalog: Catalog, gpu: str | None, region: str | None, min_gpus: int, efa: bool | None, usage: str | None
) -> list[InstanceType]:
    """Return the matching types, largest GPUs first. Raises InputError for an unknown filter value."""
    found = catalog.find_instances(
        gpu=_known("GPU", gpu, catalog.accelerators),
        region=region,
        usage=_known("usage class", usage, get_args(UsageClass)),  # type: ignore[arg-type]
        min_gpus=min_gpus,
        efa=efa,
    )
    memory = {
        name: max(_memory(item) for item in catalog.instances.values() if _accelerator(item) == name)
        for name in {_accelerator(item) for item in found}
    }
    return sorted(found, key=lambda item: (_plain_cpu(item), -memory[_accelerator(item)], _accelerator(item)))


def _accelerator(item: InstanceType) -> str:
    return item.accelerator.name if item.accelerator else ""


def _memory(item: InstanceType) -> float:
    """Return GiB of a type's GPU or Neuron device; 0 if it has none, or none is known."""
    return (item.accelerator.memory_gib if item.accelerator else None) or 0


def _amount(item: InstanceType, region: str, usage: str) -> Decimal | None:
    """Return the price of a type in USD per hour for a region and usage class, None if unknown."""
    for row in instance_prices([item], region):
        if row.kind == usage:
            return _amount_of(row.price)
    return None


def _amount_of(price: Price | SpotPrices) -> Decimal | None:
    return price.median if isinstance(price, SpotPrices) else price.amount


def _costs_at_most(limit: float | None, amount: Decimal | None) -> bool:
    return limit is None or (amount is not None and amount <= Decimal(str(limit)))


def _mentions(fact: Fact, words: Sequence[str] | None) -> bool:
    """Return whether the catalog entry contains each of these texts."""
    return _has_words(fact.model_dump_json(), words)


def _has_words(text: str, words: Sequence[str] | None) -> bool:
    return all(word.lower() in text.lower() for word in words or ())


def _plain_cpu(item: InstanceType) -> bool:
    return item.accelerator is None and not item.accelerator_unknown


def _regions(catalog: Catalog) -> set[str]:
    return set(catalog.regions) | {region for item in catalog.instances.values() for region in item.regions}


def _known(kind: str, value: str | None, known: Iterable[str]) -> str | None:
    """Return the known name equal to `value` except for case. Raises InputError for unknown values."""
    if value is None:
        return None
    names = sorted(known)
    for name in names:
        if name.lower() == value.lower():
            return name
    guess = nearest(value, names)
    raise InputError(
        f"unknown {kind} {value!r}" + (f"; did you mean {guess!r}?" if guess else ""),
        remedy=f"use one of {', '.join(names)}",
    )


def _system_notes(found: Iterable[System]) -> list[str]:
    return [
        f"{item.name}: {text}"
        for item in found
        for text in (*item.notes, *([item.price.note] if item.price.known else []), *item.sources)
    ]
