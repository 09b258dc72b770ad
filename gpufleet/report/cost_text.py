"""The monthly cost of a fleet on a terminal: each line with its price's origin, and the budget."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from gpufleet.plan.models import FleetPlan
from gpufleet.pricing.age import STALE_AFTER, of_fleet_file, price_age
from gpufleet.pricing.cloud_budget import cloud_budgets
from gpufleet.pricing.models import Amount, CostLine, FleetCost, grouped, sums_by
from gpufleet.report.money import money, money_range
from gpufleet.report.tables import print_table

ACCOUNT = "(account)"
"""Shown for resources outside any site: the stack itself, the budget."""


def print_cost(cost: FleetCost, plan: FleetPlan, console: Console, today: dt.date) -> None:
    """Print the cost lines, unknown and not counted costs, and the sum compared with the budget.

    Lines of the same kind and owner are merged.
    """
    table = cost_table("site", "owner", "what", "USD a month", "price of")
    for line in grouped(cost.lines):
        if line.known:
            table.add_row(
                escape(line.site or ACCOUNT),
                escape(line.owner),
                escape(line.what),
                _two_rows(line),
                origin(line, today),
            )
    console.print("\n[bold]monthly cost[/bold] (730 hours)")
    print_table(table, console)
    console.print(budget_line(cost, plan.budget.monthly), soft_wrap=True)
    for text in cloud_budget_lines(plan, cost.currency):
        console.print(text, soft_wrap=True, markup=False)
    for text in (*unknown_lines(cost), *estimated_lines(cost)):
        console.print(text, soft_wrap=True)
    if cost.not_counted:
        console.print("  not counted, because it depends on usage or is already paid:")
        for text in cost.not_counted:
            console.print(f"    {text}", soft_wrap=True, markup=False)


def print_budget(cost: FleetCost, plan: FleetPlan, console: Console, *, briefly: bool = False) -> None:
    """Print the sum compared with the budget, each unknown price, and where to find what is not counted.

    `briefly` prints only the names of resources with an unknown price.
    """
    console.print(budget_line(cost, plan.budget.monthly), soft_wrap=True)
    for text in (*(_unknown_names(cost) if briefly else unknown_lines(cost)), *_estimated_names(cost)):
        console.print(text, soft_wrap=True)
    if cost.not_counted:
        count = len(cost.not_counted)
        console.print(
            f"  not counted: {count} thing{'s' if count != 1 else ''}, mostly by usage; "
            f"`gpufleet plan {plan.environment}` lists {'them' if count != 1 else 'it'}",
            soft_wrap=True,
            markup=False,
        )


def cloud_budget_lines(plan: FleetPlan, currency: str) -> list[str]:
    """Return a line for each budget in AWS: its limit, and what a breach does."""
    lines = []
    for each in cloud_budgets(plan):
        what = f"{each.kind} {each.name}" if each.name else "the cloud"
        text = f"  AWS budget of {what}: {money(each.monthly, currency)} ({each.basis})"
        if not each.complete:
            text += "; the cost of racks is partly unknown, so it is too high by that"
        if not each.name and plan.budget.stops_growth:
            groups = len(plan.budget.growing)
            text += f"; at 100% {groups} node group{'s' if groups != 1 else ''} grow no more"
        if not each.name and plan.budget.drains_spot:
            groups = len(plan.budget.spot_groups)
            text += f", at {plan.budget.drain_spot_at:f}% spot nodes of {groups} drain"
        lines.append(text)
    return lines


def budget_line(cost: FleetCost, monthly: Decimal) -> str:
    """Return `cost: 12,345 USD a month (...) of a 20,000 USD budget (62%)`, coloured by its share."""
    total = cost.total
    budget = f"a {money(monthly, cost.currency)} budget"
    if not total.known:
        return f"  cost: [yellow]unknown[/yellow], of {budget}"
    color = "red" if total.expected > monthly else "yellow" if total.maximum > monthly else "green"
    bound = "" if total.complete else "at least "
    text = f"  cost: [{color}]{bound}{money_range(total, cost.currency)} a month[/{color}] of {budget}"
    if monthly:
        text += f" ({total.expected / monthly * 100:.0f}%)"
    if total.expected > monthly:
        text += f"; [red]over it by {money(total.expected - monthly, cost.currency)}[/red]"
    elif total.maximum > monthly:
        text += "; over it at maximum size"
    if cost.upfront:
        text += f"; {money(cost.upfront, cost.currency)} to be paid upfront"
    return text


def unknown_lines(cost: FleetCost) -> list[str]:
    """Return one line per kind of resource without a known price."""
    return [
        f"  [yellow]unknown cost[/yellow]: {escape(_owner(line))}: "
        f"{escape(line.what)} ({escape(line.reason)})"
        for line in grouped(cost.unknown)
    ]


def _unknown_names(cost: FleetCost) -> list[str]:
    """Return the names of resources with an unknown price on one line; empty if all are known."""
    names = dict.fromkeys(map(_owner, cost.unknown))
    return [f"  [yellow]unknown cost[/yellow]: {escape(', '.join(names))}"] if names else []


def estimated_lines(cost: FleetCost) -> list[str]:
    """Return one line per kind of resource with an estimated price."""
    return [
        f"  [yellow]estimate[/yellow]: {escape(_owner(line))}: {escape(line.what)} ({escape(line.note)})"
        for line in grouped(cost.estimated)
    ]


def _estimated_names(cost: FleetCost) -> list[str]:
    """Return the sum of estimated costs and their names on one line; empty if there are none."""
    if not cost.estimated:
        return []
    total = sums_by(cost.estimated, lambda line: "")[""]
    names = ", ".join(dict.fromkeys(map(_owner, cost.estimated)))
    share = money_range(total, cost.currency)
    reason = "because the price of the region is not known for sure"
    return [f"  [yellow]estimated[/yellow]: {share} of it, {reason}: {escape(names)}"]


def _owner(line: CostLine) -> str:
    return f"{line.site}/{line.owner}" if line.owner else line.site or ACCOUNT


def origin(line: CostLine, today: dt.date) -> Text:
    """Return the source of a line's price: the fleet file, an estimate, or a date and its age."""
    if of_fleet_file(line):
        return Text("fleet file", style="dim")
    if line.estimated:
        return Text("estimate", style="yellow")
    age = price_age(line, today)
    if age is None:
        return Text("undated", style="yellow")
    days = f"{age.days} d ago" if age.days > 0 else "today"
    return Text(f"{line.date} ({days})", style="yellow" if age > STALE_AFTER else "dim")


def cost_table(*columns: str) -> Table:
    """Return a table with right-aligned money; a narrow screen wraps words and never cuts them."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, show_edge=False)
    for column in columns:
        money_column = column.startswith("USD")
        table.add_column(
            column, justify="right" if money_column else "left", no_wrap=money_column, overflow="fold"
        )
    return table


def owner_cost(cost: FleetCost, site: str, owner: str) -> str:
    """Return the monthly cost of a node group or storage; `at least` if a part of it is unknown."""
    found = cost.by("owner").get(f"{site}/{owner}")
    if found is None:
        return ""
    return _two_rows(found) if found.complete or not found.known else f"at least {_two_rows(found)}"


def site_cost(cost: FleetCost, site: str, currency: str) -> str:
    """Return the monthly cost of a site; `at least` if a part of it is unknown. Costs of the account have
    the site ""."""
    found = cost.by("site").get(site)
    if found is None:
        return "not priced"
    return ("at least " if found.known and not found.complete else "") + money_range(found, currency)


def _two_rows(cost: Amount | CostLine) -> str:
    return money_range(cost, "").replace(" (", "\n(", 1)
