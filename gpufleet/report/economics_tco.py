"""`gpufleet tco` as terminal text, and its plots as files."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from rich.console import Console
from rich.table import Table

from gpufleet.economics.json import Assumption, ownership_to_json
from gpufleet.economics.tco import MONTHS_PER_YEAR, TcoResult
from gpufleet.economics.tco_risk import Risk, TcoCase, TornadoBar
from gpufleet.files import write_atomically
from gpufleet.report.economics_plots import (
    PlotFormat,
    bands_plot,
    break_even_plot,
    plain_number,
    rendered,
    tornado_plot,
)
from gpufleet.report.economics_text import print_assumptions, print_rows
from gpufleet.report.money import money
from gpufleet.report.tables import print_table

_BARS = 6


def owned_label(result: TcoResult, risk: Risk) -> str:
    """Return what the total of owning is called: below its range it has the lowest of several prices."""
    return "owned, lowest price" if result.owned.total < risk.owned[0] else "owned"


def show_tco(
    result: TcoResult,
    what: str,
    bars: Sequence[TornadoBar],
    risk: Risk,
    assumed: Sequence[Assumption],
    console: Console,
) -> None:
    """Print both totals with their range, where they are equal, and what moves the result most."""
    at, month = result.break_even_utilization, result.break_even_month
    most = result.years * MONTHS_PER_YEAR
    rented = None if not result.gpu_hours else result.cloud_total / result.gpu_hours
    print_rows(
        console,
        (what, f"{result.years:g} years at {result.utilization:.0%}: {result.gpu_hours:,.0f} GPU-hours"),
        ("rented", f"{_usd(result.cloud_total)}{_each(rented)}"),
        ("  5 % to 95 %", _between(risk.rented)),
        (owned_label(result, risk), f"{_usd(result.owned.total)}{_each(result.owned_per_gpu_hour)}"),
        ("  5 % to 95 %", _between(risk.owned)),
        *(
            (f"  {name}", _usd(value))
            for name, value in ownership_to_json(result.owned).items()
            if name != "total" and value
        ),
        ("equal at a utilization of", "never between 0 and 100 %" if at is None else f"{at:.1%}"),
        ("equal after", f"not within {most:g} months" if month is None else f"{month:.1f} months"),
        ("owning costs less in", f"{risk.owning_wins:.1%} of {risk.draws:,} draws (seed {risk.seed})"),
    )
    print_table(sensitivity_table(bars[:_BARS]), console)
    print_assumptions(assumed, console)


def sensitivity_table(bars: Sequence[TornadoBar]) -> Table:
    """Return one row for each input that is varied."""
    table = Table("input", title="what moves rented - owned most", title_justify="left")
    for heading in ("from", "to", "USD from", "USD to"):
        table.add_column(heading, justify="right")
    for bar in bars:
        savings = (_usd(bar.saving_at_low), _usd(bar.saving_at_high))
        table.add_row(bar.name.replace("_", " "), plain_number(bar.low), plain_number(bar.high), *savings)
    return table


def write_plots(
    case: TcoCase, bars: Sequence[TornadoBar], risk: Risk, folder: Path, form: PlotFormat
) -> list[Path]:
    """Write the three plots and return their paths. All are drawn before the first is written."""
    found = case.result()
    figures = {
        "break-even": break_even_plot(case),
        "tornado": tornado_plot(bars, found.cloud_total - found.owned.total),
        "bands": bands_plot(risk),
    }
    contents = {folder / f"{name}.{form}": rendered(each, form) for name, each in figures.items()}
    for path, content in contents.items():
        write_atomically(path, content)
    return list(contents)


def _usd(amount: float) -> str:
    return money(Decimal(amount).quantize(Decimal(1)))


def _each(per_hour: float | None) -> str:
    return "" if per_hour is None else f" ({per_hour:,.2f} USD per used GPU-hour)"


def _between(spread: tuple[float, float, float]) -> str:
    return f"{_usd(spread[0])} to {_usd(spread[2])}"
