"""`gpufleet usage` as terminal text."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpufleet.economics.usage import UsageReport, by_team
from gpufleet.report.money import money
from gpufleet.report.tables import print_table

_SHOWN = 15


def show_usage(report: UsageReport, console: Console) -> None:
    """Print the cost by team, what was idle or lost, commitments, unusual days and advice."""
    print_table(showback_table(report), console)
    console.print("lost: of jobs that did not succeed; unused: allocated GPUs that did nothing, if measured")
    for paid in report.commitments:
        console.print(f"{paid.kind}: {_usd(paid.used)} USD used, {_usd(paid.unused)} USD unused")
    if report.anomalies:
        print_table(unusual_table(report, _SHOWN), console)
        _more(len(report.anomalies), console)
    if report.advice:
        print_table(advice_table(report, _SHOWN), console)
        _more(len(report.advice), console)
    _lines("from:", report.sources, console)
    _lines("prices:", price_lines(report), console)
    reasons = [
        f"{each.source}: idle GPU-hours unknown: {each.reason}" for each in report.capacities if each.reason
    ]
    _lines("notes:", [*report.notes, *reasons], console)


def showback_table(report: UsageReport) -> Table:
    """Return one row for each team, and what was idle."""
    table = Table("source", "team", title="showback by team", title_justify="left")
    for heading in ("GPU-hours", "lost", "unused", "USD"):
        table.add_column(heading, justify="right")
    for each in by_team(report.allocations):
        hours = [_hours(value) for value in (each.gpu_hours, each.lost, each.unused)]
        table.add_row(each.source, each.team or "(no team)", *hours, _usd(each.cost))
    for capacity in report.capacities:
        if capacity.idle is not None:
            table.add_row(capacity.source, "(idle)", _hours(capacity.idle), "", "", _usd(capacity.idle_cost))
    return table


def unusual_table(report: UsageReport, most: int) -> Table:
    """Return the first `most` unusual days."""
    unusual = Table("source", "team", "day", title="unusual days", title_justify="left")
    for heading in ("value", "usual"):
        unusual.add_column(heading, justify="right")
    unusual.add_column("unit")
    for found in report.anomalies[:most]:
        values = (f"{found.value:,.0f}", f"{found.usual:,.0f}", found.unit)
        unusual.add_row(found.source, found.team or "(no team)", str(found.day), *values)
    return unusual


def advice_table(report: UsageReport, most: int) -> Table:
    """Return the first `most` jobs on GPUs that are too large."""
    smaller = Table("team", "experiment", title="jobs on GPUs that are too large", title_justify="left")
    for heading in ("GPU-hours", "used"):
        smaller.add_column(heading, justify="right")
    smaller.add_column("advice")
    for item in report.advice[:most]:
        smaller.add_row(
            item.team,
            item.name,
            f"{_hours(item.gpu_hours)} {item.gpu}",
            f"{item.utilization:.0%}",
            item.text,
        )
    return smaller


def price_lines(report: UsageReport) -> list[str]:
    """Return the price of each site with its calculation."""
    return [
        f"{each.source}: {each.price:,.4f} USD per GPU-hour = {each.basis}"
        for each in report.capacities
        if each.price is not None
    ]


def _lines(heading: str, lines: Iterable[str], console: Console) -> None:
    found = list(lines)
    if found:
        console.print(heading)
        for line in found:
            console.print(Text(f"  {line}", style="dim"), soft_wrap=True)


def _more(number: int, console: Console) -> None:
    if number > _SHOWN:
        console.print(f"{number - _SHOWN:,} more: --json has all")


def _hours(value: float) -> str:
    return f"{value:,.1f}" if value else "0"


def _usd(value: float | None) -> str:
    return "unknown" if value is None else money(Decimal(value), "")
