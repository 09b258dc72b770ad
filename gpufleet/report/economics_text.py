"""Results of calculators as terminal text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpufleet.economics.checkpoints import CheckpointPlan
from gpufleet.economics.collectives import CollectiveTime
from gpufleet.economics.inference import InferenceSizing
from gpufleet.economics.json import (
    Assumption,
    inference_memory_to_json,
    training_memory_to_json,
)
from gpufleet.economics.models import ModelShape
from gpufleet.economics.places import GpuPlace, HourlyRate
from gpufleet.economics.quantities import GB, GIB
from gpufleet.economics.spot import SpotComparison
from gpufleet.economics.storage import StorageSizing
from gpufleet.economics.training import Placement, TrainingTime
from gpufleet.report.money import money
from gpufleet.report.tables import print_table

Row = tuple[str, str]


def show_checkpoints(plan: CheckpointPlan, console: Console) -> None:
    """Print an interval between checkpoints."""
    print_rows(
        console,
        (
            "interval between checkpoints",
            f"{_seconds(plan.interval_s)} (Daly: {_seconds(plan.daly_interval_s)})",
        ),
        ("lost to checkpoints and failures", f"{plan.waste_fraction:.2%}"),
        ("elapsed / computing time", f"{plan.expected_slowdown:.4f}"),
    )
    if not plan.first_order_holds:
        console.print("a checkpoint is long beside the time between failures: use Daly's interval")


def show_collective(result: CollectiveTime, console: Console) -> None:
    """Print a collective operation."""
    print_rows(
        console,
        (result.collective, f"{result.ranks} ranks, {result.bytes / GB:,.3f} GB"),
        ("time", _seconds(result.time_s)),
        ("algorithm bandwidth", f"{result.algbw_bytes_s / GB:,.2f} GB/s"),
        ("bus bandwidth", f"{result.busbw_bytes_s / GB:,.2f} GB/s (factor {result.factor:.4f})"),
    )


def show_storage(result: StorageSizing, region: str, console: Console) -> None:
    """Print a throughput and the file systems that give it."""
    print_rows(
        console,
        (
            "throughput",
            f"{result.bytes_s / GB:,.2f} GB/s ({result.bytes / GB:,.0f} GB in {_seconds(result.within_s)})",
        ),
        ("capacity", f"{result.capacity_gib:,} GiB"),
        ("on racks", f"links to the storage of 400 Gb/s: {result.links}; disks that are as fast"),
    )
    table = Table(title=f"FSx for Lustre in {region}", title_justify="left")
    for heading in ("file system", "GiB", "GB/s", "bound by", "USD per month", "note"):
        table.add_column(heading, justify="right" if heading in ("GiB", "GB/s", "USD per month") else "left")
    for item in result.options:
        tier = item.deployment if item.throughput is None else f"{item.deployment} {item.throughput} MB/s/TiB"
        table.add_row(
            tier + (", EFA" if item.efa else ""),
            f"{item.capacity_gib:,}",
            f"{item.bytes_s / GB:,.2f}",
            item.bound_by,
            _range(item.monthly, item.monthly_minimum, item.monthly_maximum),
            item.note,
        )
    print_table(table, console)


def show_training(
    model: ModelShape,
    place: GpuPlace,
    placement: Placement,
    time: TrainingTime,
    rate: HourlyRate,
    assumed: Sequence[Assumption],
    console: Console,
) -> None:
    """Print a training run."""
    division, memory = placement.parallelism, placement.memory
    limit = "" if place.memory_bytes is None else f" of {place.memory_bytes / GIB:,.0f} GiB"
    print_rows(
        console,
        ("model", _model(model)),
        (
            "parallelism",
            f"data {division.data} x tensor {division.tensor} x pipeline {division.pipeline}",
        ),
        ("ZeRO, recompute", f"stage {division.zero}, {placement.recompute}"),
        (
            "memory per GPU",
            f"{memory.total / GIB:,.1f} GiB{limit}: {'fits' if placement.fits else 'does not fit'}",
        ),
        *_parts(training_memory_to_json(memory)),
        ("time without failures", f"{time.compute_h:,.1f} h"),
        ("time", f"{time.time_h:,.1f} h ({time.gpu_hours:,.0f} GPU-hours)"),
        (
            "checkpoints",
            f"{time.checkpoint_bytes / GB:,.0f} GB every {_seconds(time.checkpoints.interval_s)}",
        ),
        ("failures", f"every {_seconds(time.checkpoints.mtbf_s)}"),
        ("cost", _cost(rate, time.gpu_hours)),
    )
    print_assumptions(assumed, console)


def show_inference(
    model: ModelShape,
    place: GpuPlace,
    result: InferenceSizing,
    assumed: Sequence[Assumption],
    console: Console,
) -> None:
    """Print the memory of inference."""
    memory = result.memory
    fits = "fits" if result.fits else "does not fit"
    print_rows(
        console,
        ("model", _model(model)),
        ("on", f"{result.tensor} x {place.gpu}, {result.batch} sequences of {result.context:,} tokens"),
        ("memory per GPU", f"{memory.total / GIB:,.1f} GiB of {result.gpu_bytes / GIB:,.0f} GiB: {fits}"),
        *_parts(inference_memory_to_json(memory)),
        ("KV cache of a token", f"{memory.kv_cache_per_token / 1024:,.1f} KiB on each GPU"),
        ("sequences that fit", f"{result.most_sequences:,}"),
    )
    print_assumptions(assumed, console)


def show_spot(found: SpotComparison, console: Console) -> None:
    """Print spot beside on-demand."""
    rows = [
        (f"{found.instance_type} in {found.region}", "USD per hour"),
        ("on-demand", _price(found.on_demand, found.on_demand_source, found.on_demand_date)),
        ("spot, median of zones", _price(found.spot, found.spot_source, found.spot_date)),
    ]
    if found.spot is not None:
        rows.append(("spot, lowest and highest", f"{found.spot_low} to {found.spot_high}"))
    if found.slowdown != 1:
        rows.append(("elapsed / computing time", f"{found.slowdown:.4f}"))
    saving = "unknown" if found.saving_fraction is None else f"{found.saving_fraction:.1%}"
    rows.append(("saving", saving))
    print_rows(console, *rows)
    if found.reason:
        console.print(Text(found.reason))


def print_rows(console: Console, *rows: Row) -> None:
    """Print names and values as two columns."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    print_table(table, console)


def print_assumptions(assumed: Iterable[Assumption], console: Console) -> None:
    """Print values that the user did not give, with their sources."""
    found = list(assumed)
    if found:
        console.print("assumed:")
        for item in found:
            console.print(Text(f"  {item.name} {item.value} ({item.source})", style="dim"), soft_wrap=True)


def _parts(parts: dict[str, float]) -> list[Row]:
    return [
        (f"  {name.replace('_', ' ')}", f"{value:,.1f} GiB")
        for name, value in parts.items()
        if name != "total" and value
    ]


def _model(model: ModelShape) -> str:
    text = f"{model.model_type}, {model.parameters / 1e9:,.2f} billion parameters"
    if model.active_parameters != model.parameters:
        text += f", {model.active_parameters / 1e9:,.2f} billion active"
    return text


def _seconds(seconds: float) -> str:
    """Format a time with the unit that people would use."""
    for limit, unit, factor in (
        (1e-3, "us", 1e6),
        (1.0, "ms", 1e3),
        (120.0, "s", 1.0),
        (7200.0, "min", 1 / 60),
    ):
        if seconds < limit:
            return f"{seconds * factor:,.1f} {unit}"
    return f"{seconds / 3600:,.2f} h"


def _cost(rate: HourlyRate, gpu_hours: float) -> str:
    if rate.amount is None:
        return f"unknown: {rate.reason}"
    hours = Decimal(gpu_hours)
    text = money(rate.amount * hours)
    if rate.minimum is not None and rate.maximum is not None and rate.minimum != rate.maximum:
        text += f" ({money(rate.minimum * hours, '')} to {money(rate.maximum * hours, '')})"
    where = "; ".join(part for part in (rate.note, rate.source) if part)
    return f"{text}: {rate.amount:,.4f} USD per GPU-hour, {where}"


def _price(amount: Decimal | None, source: str, date: str | None) -> str:
    return "unknown" if amount is None else f"{amount} ({source}, {date or 'undated'})"


def _range(amount: Decimal | None, low: Decimal | None, high: Decimal | None) -> str:
    if amount is None or low is None or high is None:
        return "unknown"
    return (
        money(amount, "") if low == high else f"{money(amount, '')} ({money(low, '')} to {money(high, '')})"
    )
