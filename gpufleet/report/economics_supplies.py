"""`gpufleet spot simulate` as terminal text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpufleet.economics.json import Assumption
from gpufleet.economics.supplies import Question, SupplyOutcome
from gpufleet.report.economics_text import print_assumptions
from gpufleet.report.tables import print_table


def show_supplies(
    question: Question, outcomes: Sequence[SupplyOutcome], assumed: Sequence[Assumption], console: Console
) -> None:
    """Print one row for each supply: median with the 5 % and 95 % quantiles."""
    job = question.job
    deadline = "" if question.deadline_s is None else f", deadline {question.deadline_s / 3600:,.1f} h"
    console.print(
        Text(
            f"{job.work_s / 3600:,.1f} h of work on {job.nodes} nodes, a checkpoint of {job.checkpoint_s:g} s"
            f" every {job.interval_s / 60:,.1f} min{deadline}; {question.runs:,} runs, seed {question.seed}"
        )
    )
    print_table(supplies_table(question, outcomes), console)
    console.print("prices:")
    for line in price_lines(outcomes):
        console.print(Text(f"  {line}", style="dim"), soft_wrap=True)
    print_assumptions(assumed, console)


def supplies_table(question: Question, outcomes: Sequence[SupplyOutcome]) -> Table:
    """Return one row for each supply."""
    table = Table("supply", title="median (5 % to 95 %)", title_justify="left")
    for heading in ("hours", "USD", "USD per node-hour", "saving"):
        table.add_column(heading, justify="right")
    if question.deadline_s is not None:
        table.add_column("in time", justify="right")
    table.add_column("note")
    for each in outcomes:
        finish, cost = each.finish_h, each.cost
        row = [
            each.supply,
            "-" if finish is None else _spread(finish.low, finish.median, finish.high, 1),
            "unknown" if cost is None else _spread(cost.low, cost.median, cost.high, 0),
            "unknown" if each.price is None else f"{each.price:,.4f}",
            "unknown" if each.saving is None else f"{each.saving:.1%}",
        ]
        if question.deadline_s is not None:
            row.append("-" if each.meets is None else f"{each.meets:.1%}")
        table.add_row(*row, _note(each))
    return table


def price_lines(outcomes: Sequence[SupplyOutcome]) -> list[str]:
    """Return the source and date of each price."""
    lines = (f"{each.supply}: {each.source}, {each.date or 'undated'}" for each in outcomes if each.source)
    return list(dict.fromkeys(lines))


def _spread(low: float, median: float, high: float, digits: int) -> str:
    def of(value: float) -> str:
        return f"{value:,.{digits}f}" if math.isfinite(value) else "not finished"

    return of(median) if of(low) == of(high) else f"{of(median)} ({of(low)} to {of(high)})"


def _note(each: SupplyOutcome) -> str:
    parts = [each.reason, each.note]
    if each.interruptions:
        parts.append(f"{each.interruptions:,.1f} interruptions")
    if each.unfinished:
        parts.append(f"{each.unfinished:.1%} of the runs did not finish")
    if each.fallback is not None:
        parts.append(f"{each.fallback:.1%} of the runs end on demand")
    return "; ".join(part for part in parts if part)
