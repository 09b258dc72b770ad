"""What a fleet costs a month on a terminal: each line with its price's origin, and the budget."""

from __future__ import annotations

import datetime as dt

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from gpufleet.plan.cost.age import STALE_AFTER, price_age
from gpufleet.plan.models import CostLine, CostPlan, CostRange
from gpufleet.report.money import money, money_range
from gpufleet.report.tables import print_table


def print_cost(cost: CostPlan, console: Console, today: dt.date) -> None:
    """Every cost line, what is unknown or not counted, and the sum against the budget."""
    table = cost_table("site", "owner", "what", "USD a month", "price of")
    for line in cost.lines:
        table.add_row(
            escape(line.site),
            escape(line.owner),
            escape(line.what),
            _two_rows(line.monthly),
            origin(line, today),
        )
    console.print("\n[bold]monthly cost[/bold] (730 hours)")
    print_table(table, console)
    console.print(budget_line(cost), soft_wrap=True)
    for text in unknown_lines(cost):
        console.print(text, soft_wrap=True)
    if cost.not_counted:
        console.print("  not counted, since it depends on use or is paid already:")
        for text in cost.not_counted:
            console.print(f"    {text}", soft_wrap=True, markup=False)


def print_budget(cost: CostPlan, environment: str, console: Console, *, briefly: bool = False) -> None:
    """The sum against the budget, each unknown price, and where to read what is not counted.

    `briefly` only names what has an unknown price.
    """
    console.print(budget_line(cost), soft_wrap=True)
    for text in _unknown_names(cost) if briefly else unknown_lines(cost):
        console.print(text, soft_wrap=True)
    if cost.not_counted:
        count = len(cost.not_counted)
        console.print(
            f"  not counted: {count} thing{'s' if count != 1 else ''}, mostly by use; "
            f"`gpufleet plan {environment}` lists {'them' if count != 1 else 'it'}",
            soft_wrap=True,
            markup=False,
        )


def budget_line(cost: CostPlan) -> str:
    """`cost: 12,345 USD a month (...) of a 20,000 USD budget (62%)`, coloured by how near it is."""
    budget = f"a {money(cost.budget_monthly, cost.currency)} budget"
    if cost.monthly.expected is None:
        return f"  cost: [yellow]unknown[/yellow], of {budget}"
    expected = cost.monthly.expected
    highest = cost.monthly.high if cost.monthly.high is not None else expected
    color = (
        "red" if expected > cost.budget_monthly else "yellow" if highest > cost.budget_monthly else "green"
    )
    bound = "at least " if cost.unknown else ""
    text = f"  cost: [{color}]{bound}{money_range(cost.monthly, cost.currency)} a month[/{color}] of {budget}"
    if cost.budget_monthly:
        text += f" ({expected / cost.budget_monthly * 100:.0f}%)"
    if expected > cost.budget_monthly:
        text += f"; [red]over it by {money(expected - cost.budget_monthly, cost.currency)}[/red]"
    elif highest > cost.budget_monthly:
        text += "; over it at maximum size"
    if cost.upfront:
        text += f"; {money(cost.upfront, cost.currency)} to be paid upfront"
    return text


def unknown_lines(cost: CostPlan) -> list[str]:
    """One line for each price that nobody knows."""
    return [
        f"  [yellow]unknown cost[/yellow]: {escape(item.site)}/{escape(item.owner)}: "
        f"{escape(item.what)} ({escape(item.reason)})"
        for item in cost.unknown
    ]


def _unknown_names(cost: CostPlan) -> list[str]:
    """What has an unknown price, on one line; none where all is known."""
    names = dict.fromkeys(f"{item.site}/{item.owner}" for item in cost.unknown)
    return [f"  [yellow]unknown cost[/yellow]: {escape(', '.join(names))}"] if names else []


def origin(line: CostLine, today: dt.date) -> Text:
    """Where a line's price comes from: the fleet file, or a day and how long ago that was."""
    if line.kind in ("power", "ownership"):
        return Text("fleet file", style="dim")
    age = price_age(line, today)
    if age is None:
        return Text("undated", style="yellow")
    days = f"{age.days} d ago" if age.days > 0 else "today"
    return Text(f"{line.date} ({days})", style="yellow" if age > STALE_AFTER else "dim")


def cost_table(*columns: str) -> Table:
    """A table whose money is on the right; a narrow screen folds words, and never cuts them."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, show_edge=False)
    for column in columns:
        money_column = column.startswith("USD")
        table.add_column(
            column, justify="right" if money_column else "left", no_wrap=money_column, overflow="fold"
        )
    return table


def owner_cost(cost: CostPlan, site: str, owner: str) -> str:
    """What a node group or storage costs a month; `at least` where a part of it is unknown."""
    found = cost.by_owner.get(f"{site}/{owner}")
    if any(item.site == site and item.owner == owner for item in cost.unknown):
        return "unknown" if found is None else f"at least {_two_rows(found)}"
    return _two_rows(found) if found is not None else ""


def site_cost(cost: CostPlan, site: str, currency: str) -> str:
    """What a site costs a month; `at least` where a part of it is unknown."""
    found = cost.by_site.get(site)
    partly = any(item.site == site for item in cost.unknown)
    if found is None or found.expected is None:
        return "unknown" if partly else "not priced"
    return ("at least " if partly else "") + money_range(found, currency)


def _two_rows(cost: CostRange) -> str:
    return money_range(cost, "").replace(" (", "\n(", 1)
