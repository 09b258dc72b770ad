"""`gpufleet cost` as terminal text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpufleet.economics.cost import LineChange, number_of
from gpufleet.economics.cost_json import hourly
from gpufleet.pricing.models import Amount, CostLine, FleetCost
from gpufleet.report.cost_text import origin, unknown_lines
from gpufleet.report.money import money, money_range
from gpufleet.report.tables import print_table


def show_cost(cost: FleetCost, by: str, groups: Mapping[str, Amount], console: Console) -> None:
    """Print the groups, the most expensive first, their sum, and what has no known price."""
    print_table(groups_table(cost, by, groups), console)
    if cost.upfront:
        console.print(f"paid once: {money(cost.upfront)}")
    for text in unknown_lines(cost):
        console.print(text, soft_wrap=True)


def groups_table(cost: FleetCost, by: str, groups: Mapping[str, Amount]) -> Table:
    """Return the groups, the most expensive first, and their sum."""
    table = _table(by, "USD a month", "USD an hour")
    for name, amount in sorted(groups.items(), key=lambda item: -item[1].expected):
        table.add_row(Text(name or "without the tag"), *_cells(amount))
    table.add_section()
    table.add_row("all", *_cells(cost.total))
    return table


def lines_table(cost: FleetCost, today: dt.date) -> Table:
    """Return every line with its calculation and the date of its price."""
    table = Table()
    for heading in ("place", "what", "calculation", "price of"):
        table.add_column(heading)
    table.add_column("USD a month", justify="right")
    for line in cost.lines:
        place = "/".join(part for part in (line.site, line.owner) if part) or "account"
        amount = "unknown" if line.expected is None else money(line.expected, "")
        table.add_row(
            Text(place), Text(line.what), Text(line.basis or line.reason), origin(line, today), amount
        )
    return table


def show_cost_changes(
    before: FleetCost, after: FleetCost, changes: Sequence[LineChange], name: str, console: Console
) -> None:
    """Print each line that differs, and the difference of the sums."""
    if not changes:
        console.print(Text(f"the same cost as {name}"))
        return
    console.print(Text(f"compared with {name}, USD a month"))
    print_table(changes_table(changes), console)
    difference = after.total.expected - before.total.expected
    lower = "" if before.total.complete and after.total.complete else ", without what is unknown"
    console.print(f"{_signed(difference)} USD a month{lower}")


def changes_table(changes: Sequence[LineChange]) -> Table:
    """Return the lines that differ."""
    table = _table("line", "before", "after", "difference")
    for change in changes:
        place = "/".join(part for part in (change.site, change.owner) if part) or "account"
        table.add_row(
            Text(f"{place}: {change.what}"),
            _line(change.before),
            _line(change.after),
            "unknown" if change.difference is None else _signed(change.difference),
        )
    return table


def _table(first: str, *others: str) -> Table:
    table = Table()
    table.add_column(first)
    for heading in others:
        table.add_column(heading, justify="right")
    return table


def _cells(amount: Amount) -> tuple[str, str]:
    if not amount.known:
        return "unknown", "unknown"
    more = "" if amount.complete else " and unknown"
    return money_range(amount, "") + more, f"{hourly(amount.expected):,.2f}"


def _line(line: CostLine | None) -> str:
    if line is None:
        return "-"
    number = number_of(line)
    return f"{number}{' x, ' if number else ''}{money(line.expected, '')}"


def _signed(amount: Decimal) -> str:
    return f"{'+' if amount > 0 else ''}{money(amount, '')}"
