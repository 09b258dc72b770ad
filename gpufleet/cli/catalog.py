"""`gpufleet catalog`: what can be bought and run, what it costs, where each figure comes from."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, get_args

import typer
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from gpufleet.catalog import STALE_AFTER_DAYS, Catalog, InstanceType, System, load_catalog, price_age
from gpufleet.catalog.catalog import nearest
from gpufleet.catalog.listing import (
    PriceRow,
    all_prices,
    instance_prices,
    storage_prices,
    system_prices,
)
from gpufleet.catalog.models import Fact, UsageClass
from gpufleet.cli.catalog_refresh import refresh
from gpufleet.cli.console import PipeConsole, emit_json, out
from gpufleet.cli.context import find_root
from gpufleet.errors import InputError

WIDTH = 100
DEFAULT_REGION = "us-east-1"
REFRESHABLE = get_args(UsageClass)


class _InstancesByDefault(TyperGroup):
    """`gpufleet catalog --gpu H100` is `gpufleet catalog instances --gpu H100`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] != "--help"):
            args = ["instances", *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


app = typer.Typer(
    cls=_InstancesByDefault,
    help="What can be bought and run, and at which price; lists instance types unless told otherwise.",
    rich_markup_mode=None,
)
app.command()(refresh)

Gpu = Annotated[str | None, typer.Option("--gpu", help="Only this GPU, e.g. H100.")]
RegionOption = Annotated[
    str | None, typer.Option("--region", help=f"Prices of this region; default {DEFAULT_REGION}.")
]
MinGpus = Annotated[int, typer.Option("--min-gpus", min=0, help="At least this many GPUs.")]
Efa = Annotated[bool | None, typer.Option("--efa/--no-efa", help="Only types with (without) EFA.")]
Usage = Annotated[
    str | None, typer.Option("--usage", help="Only types sold as on-demand, spot or capacity-block.")
]
Sources = Annotated[bool, typer.Option("--sources", help="Say where each figure comes from.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def today() -> dt.date:
    """The day from which the age of a price counts."""
    return dt.datetime.now(tz=dt.UTC).date()


def checkout_catalog() -> Catalog:
    """The catalog of this checkout: the shipped one under what `refresh` has written.

    Outside a checkout it is the shipped one alone.
    """
    try:
        root = find_root()
    except InputError:
        return load_catalog()
    return load_catalog(root / ".gpufleet" / "catalog")


@app.command()
def instances(
    gpu: Gpu = None,
    region: RegionOption = None,
    min_gpus: MinGpus = 0,
    efa: Efa = None,
    usage: Usage = None,
    sources: Sources = False,
    json: Json = False,
) -> None:
    """List cloud instance types: GPUs, EFA, network and prices."""
    from gpufleet.report.catalog_tables import LEGEND, instances_table

    catalog = checkout_catalog()
    region = _known("region", region, _regions(catalog))
    found = _find(catalog, gpu, region, min_gpus, efa, usage)
    where = region or DEFAULT_REGION
    rows = list(instance_prices(found, where))
    if json:
        emit_json(_json("instances", found, rows) | {"region": where})
        return
    table = instances_table(found, catalog, where, today())
    notes = [f"{item.name}: {note}" for item in found for note in item.notes] if sources else []
    _show(table, rows, sources, count=len(found), legend=LEGEND + ". Spot is the median.", notes=notes)


@app.command()
def systems(gpu: Gpu = None, min_gpus: MinGpus = 0, sources: Sources = False, json: Json = False) -> None:
    """List on-premises systems: power, network cards and price a node."""
    from gpufleet.report.catalog_tables import LEGEND, systems_table

    catalog = checkout_catalog()
    wanted = _known("GPU", gpu, {item.gpu for item in catalog.systems.values()})
    found = [
        item
        for item in catalog.systems.values()
        if (wanted is None or item.gpu == wanted) and item.gpus >= min_gpus
    ]
    rows = list(system_prices(found))
    if json:
        emit_json(_json("systems", found, rows))
        return
    notes = _system_notes(found) if sources else []
    _show(systems_table(found, today()), rows, sources, count=len(found), legend=LEGEND, notes=notes)


@app.command()
def storage(region: RegionOption = None, sources: Sources = False, json: Json = False) -> None:
    """List FSx for Lustre tiers: throughput, capacities and price."""
    from gpufleet.report.catalog_tables import LEGEND, storage_table

    catalog = checkout_catalog()
    where = _known("region", region, _regions(catalog)) or DEFAULT_REGION
    tiers = catalog.lustre_tiers
    rows = list(storage_prices(tiers, where))
    if json:
        emit_json(_json("storage", tiers, rows) | {"region": where})
        return
    notes = sorted({tier.source for tier in tiers} | {note for tier in tiers for note in tier.notes})
    table = storage_table(tiers, catalog, where, today())
    _show(table, rows, sources, count=len(tiers), legend=LEGEND, notes=notes if sources else [])


@app.command()
def software(sources: Sources = False, json: Json = False) -> None:
    """List software channels: the versions that belong together, on racks and in the cloud."""
    from gpufleet.report.catalog_tables import software_table

    locks = list(checkout_catalog().locks.values())
    if json:
        emit_json(_json("software", locks, []))
        return
    notes = [f"{lock.channel}: {note}" for lock in locks for note in lock.notes]
    notes += [f"{lock.channel} {name}: {source}" for lock in locks for name, source in lock.sources.items()]
    legend = "'*' read from a source, but its fit with the rest is stated by none"
    _show(software_table(locks), [], sources, count=len(locks), legend=legend, notes=notes if sources else [])


@app.command()
def prices(
    gpu: Gpu = None,
    region: RegionOption = None,
    usage: Usage = None,
    sources: Sources = False,
    json: Json = False,
) -> None:
    """List every price: instances, storage, services, systems; all regions unless told otherwise."""
    from gpufleet.report.catalog_tables import LEGEND, prices_table

    catalog = checkout_catalog()
    region = _known("region", region, _regions(catalog))
    rows: Sequence[PriceRow]
    if gpu is None and usage is None:
        rows = all_prices(catalog, region)
    else:
        found = _find(catalog, gpu, region, 0, None, usage)
        rows = [row for row in instance_prices(found, region) if usage is None or row.kind == usage]
    if json:
        emit_json({"kind": "prices", "prices": [_price_json(row) for row in rows]})
        return
    _show(prices_table(rows, today()), rows, sources, count=len(rows), legend=LEGEND)


def _find(
    catalog: Catalog, gpu: str | None, region: str | None, min_gpus: int, efa: bool | None, usage: str | None
) -> list[InstanceType]:
    """The types that the filters leave, biggest GPUs first; InputError for an unknown filter value."""
    found = catalog.find_instances(
        gpu=_known("GPU", gpu, catalog.gpus),
        region=region,
        usage=_known("usage class", usage, get_args(UsageClass)),  # type: ignore[arg-type]
        min_gpus=min_gpus,
        efa=efa,
    )
    memory = {
        name: max(item.gpu_memory_gib or 0 for item in catalog.instances.values() if item.gpu == name)
        for name in {item.gpu for item in found}
    }
    return sorted(found, key=lambda item: (_plain_cpu(item), -memory[item.gpu], item.gpu or ""))


def _plain_cpu(item: InstanceType) -> bool:
    return item.gpu is None and "gpu" not in item.unverified


def _regions(catalog: Catalog) -> set[str]:
    return set(catalog.regions) | {region for item in catalog.instances.values() for region in item.regions}


def _known(kind: str, value: str | None, known: Iterable[str]) -> str | None:
    """The known name that `value` is, in any case. Raises InputError for any other value."""
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


def _show(
    table: Table,
    rows: Sequence[PriceRow],
    sources: bool,
    *,
    count: int,
    legend: str,
    notes: Sequence[str] = (),
) -> None:
    """The table, its legend, a warning for old prices, and the sources when asked for."""
    console = out if out.is_terminal else PipeConsole(file=sys.stdout, width=WIDTH, highlight=False)
    if count == 0:
        console.print("nothing in the catalog meets all these conditions; leave one out")
        return
    console.print(table)
    console.print(Text(legend, style="dim"))
    for line in _age_lines(rows):
        console.print(line)
    if sources:
        for line in (*_source_lines(rows), *notes):
            console.print(Text(f"  {line}"), soft_wrap=True)


def _age_lines(rows: Sequence[PriceRow]) -> list[str]:
    """The warning for old prices, and how many have no date."""
    ages = [age for row in rows if (age := price_age(row.price, today())) is not None]
    old = [age for age in ages if age > STALE_AFTER_DAYS]
    lines = []
    if old:
        lines.append(
            f"[yellow]warning:[/yellow] {len(old)} of {len(rows)} prices older than {STALE_AFTER_DAYS} days, "
            f"the oldest {max(old)}"
        )
        if any(row.kind in REFRESHABLE for row in rows):
            lines.append("  `gpufleet catalog refresh` reads today's from your AWS account")
    undated = sum(1 for row in rows if row.price.date is None and getattr(row.price, "known", True))
    if undated:
        lines.append(f"{undated} of {len(rows)} prices undated: the source does not say of which day it is")
    return lines


def _source_lines(rows: Iterable[PriceRow]) -> list[str]:
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        if row.price.source:
            date = row.price.date.isoformat() if row.price.date else "undated"
            counts[(row.price.source, date)] = counts.get((row.price.source, date), 0) + 1
    return [
        f"{count} price{'s' if count != 1 else ''} ({date}): {source}"
        for (source, date), count in sorted(counts.items(), key=lambda item: -item[1])
    ]


def _json(kind: str, facts: Sequence[Fact], rows: Sequence[PriceRow]) -> dict[str, Any]:
    return {
        "kind": kind,
        kind: [fact.model_dump(mode="json") for fact in facts],
        "prices": [_price_json(row) for row in rows],
    }


def _price_json(row: PriceRow) -> dict[str, Any]:
    age = price_age(row.price, today())
    return {
        "what": row.what,
        "kind": row.kind,
        "region": row.region,
        "unit": "instance-hour",
        **row.price.model_dump(mode="json"),
        "age_days": age,
        "stale": age is not None and age > STALE_AFTER_DAYS,
    }
