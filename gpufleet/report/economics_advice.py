"""`gpufleet advise` as terminal text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpufleet.economics.advice import PlaceAdvice
from gpufleet.economics.job_file import JobFile
from gpufleet.economics.json import Assumption
from gpufleet.economics.supplies import Spread
from gpufleet.report.economics_text import print_assumptions
from gpufleet.report.tables import print_table

_REFUSED = 12


def show_advice(
    job: JobFile,
    found: Sequence[PlaceAdvice],
    assumed: Sequence[Assumption],
    console: Console,
    *,
    everything: bool,
) -> None:
    """Print the feasible places by rank, and why the others are not: all of them, or the first."""
    feasible = [each for each in found if not each.reasons]
    table = advice_table(job, feasible)
    if feasible:
        print_table(table, console)
    else:
        console.print(Text(f"{job.job} can run at none of {len(found)} places"))
    refused = [each for each in found if each.reasons]
    refused.sort(key=lambda each: each.candidate.added)
    if refused:
        console.print("not possible:")
    for each in refused if everything else refused[:_REFUSED]:
        console.print(Text(f"  {place_name(each)}: {'; '.join(each.reasons)}"), soft_wrap=True)
    if len(refused) > _REFUSED and not everything:
        console.print(f"  {len(refused) - _REFUSED} more: --all lists them")
    sources = price_lines(feasible)
    if sources:
        console.print("prices:")
    for line in sources:
        console.print(Text(f"  {line}", style="dim"), soft_wrap=True)
    print_assumptions(assumed, console)


def advice_table(job: JobFile, feasible: Sequence[PlaceAdvice]) -> Table:
    """Return one row for each feasible place."""
    return _training(job, feasible) if job.training is not None else _serving(job, feasible)


def price_lines(feasible: Sequence[PlaceAdvice]) -> list[str]:
    """Return the source and date of each price."""
    found = (each.candidate for each in feasible if each.candidate.source)
    return list(dict.fromkeys(f"{each.source}, {each.date or 'undated'}" for each in found))


def _training(job: JobFile, feasible: Sequence[PlaceAdvice]) -> Table:
    table = Table("rank", "place", "capacity", title=f"{job.job}: median (5 % to 95 %)", title_justify="left")
    for heading in ("GPUs", "start, h", "finish, h", "USD"):
        table.add_column(heading, justify="right")
    divided = any(_parallelism(each) for each in feasible)
    if divided:
        table.add_column("parallelism")
    table.add_column("note")
    for each in feasible:
        candidate = each.candidate
        table.add_row(
            str(each.rank),
            candidate.place,
            candidate.kind,
            f"{each.nodes * candidate.gpus_per_node:,} {candidate.gpu}",
            "by offer" if candidate.start_h is None else f"{candidate.start_h:,.1f}",
            _spread(each.finish_h, 1),
            _spread(each.cost, 0),
            *((_parallelism(each),) if divided else ()),
            _notes(each),
        )
    return table


def _serving(job: JobFile, feasible: Sequence[PlaceAdvice]) -> Table:
    serving = job.serving
    load = "" if serving is None else f"{serving.load.low:g}, {serving.load.usual:g}, {serving.load.peak:g}"
    title = f"{job.job}: at {load} requests per second"
    table = Table("rank", "place", "capacity", title=title, title_justify="left")
    for heading in ("GPUs", "utilization", "95 % within, s", "USD per hour", "USD per million", "until warm"):
        table.add_column(heading, justify="right")
    table.add_column("note")
    for each in feasible:
        sizing, candidate = each.sizing, each.candidate
        if sizing is None or sizing.low is None or sizing.usual is None or sizing.peak is None:
            raise AssertionError("a feasible service has sizes")
        sizes = (sizing.low, sizing.usual, sizing.peak)
        hourly = "unknown" if each.hourly is None else ", ".join(f"{value:,.2f}" for value in each.hourly)
        table.add_row(
            str(each.rank),
            candidate.place,
            candidate.kind,
            f"{', '.join(f'{size.gpus:,}' for size in sizes)} {candidate.gpu}",
            ", ".join(f"{size.utilization:.0%}" for size in sizes),
            ", ".join(f"{size.latency_s:.2f}" for size in sizes),
            hourly,
            "unknown" if each.per_million is None else f"{each.per_million:,.2f}",
            f"{sizing.until_warm:,.1f}/s",
            _notes(each),
        )
    return table


def place_name(each: PlaceAdvice) -> str:
    """Return the place with its purchase option and GPU."""
    candidate = each.candidate
    return f"{candidate.place} ({candidate.kind}, {candidate.gpu})"


def _notes(each: PlaceAdvice) -> str:
    parts = [each.candidate.reason, each.candidate.note, *each.notes]
    if each.candidate.added:
        parts.insert(0, "to add")
    if each.meets is not None:
        parts.append(f"{each.meets:.0%} in time")
    return "; ".join(part for part in parts if part)


def _parallelism(each: PlaceAdvice) -> str:
    if each.placement is None:
        return ""
    division = each.placement.parallelism
    return f"{division.data} x {division.tensor} x {division.pipeline}, ZeRO {division.zero}"


def _spread(spread: Spread | None, digits: int) -> str:
    if spread is None:
        return "unknown"
    low, median, high = (
        f"{value:,.{digits}f}" if math.isfinite(value) else "never"
        for value in (spread.low, spread.median, spread.high)
    )
    return median if low == high else f"{median} ({low} to {high})"
