"""The cost of a fleet by site, team and purchase option, as bars compared with the budget."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal

from msgspec import Struct

from gpufleet.catalog import STALE_AFTER_DAYS
from gpufleet.pricing.age import of_fleet_file
from gpufleet.pricing.models import Amount, CostLine, FleetCost, sums_by
from gpufleet.report.fleet_picture import OPTIONS
from gpufleet.report.money import money
from gpufleet.report.verdict_words import group_name
from gpufleet.spec.quantity import Money
from gpufleet.verdict.models import Verdict

_KINDS = {
    "compute": "Nodes, purchase option unknown",
    "storage": "Storage",
    "network": "Network",
    "control-plane": "Control planes",
    "power": "Racks: electricity",
    "ownership": "Racks: ownership",
    "running": "Racks: colocation, support and staff",
    "service": "Other services",
}


class Bar(Struct, frozen=True):
    """One sum. Positions are in percent of the chart's width, None if there is no such amount."""

    name: str
    amount: str
    range: str
    low: float
    expected: float
    high: float
    budget: float | None
    budget_words: str
    over: bool
    words: str


class Chart(Struct, frozen=True):
    """Bars with a common scale, which ends at `end`."""

    title: str
    bars: tuple[Bar, ...]
    end: str

    @property
    def has_budget(self) -> bool:
        """Return whether any of its sums has its own budget."""
        return any(bar.budget is not None for bar in self.bars)

    @property
    def has_over(self) -> bool:
        """Return whether any of its sums exceeds its budget."""
        return any(bar.over for bar in self.bars)


class PricedLine(Struct, frozen=True):
    """A cost line; `source` is the number of its price in the list of sources, from 1."""

    what: str
    basis: str
    amount: str
    range: str
    source: int
    assumed: bool
    estimated: bool


class PriceSource(Struct, frozen=True):
    """A source of prices, their age, and how much of the monthly cost uses them."""

    number: int
    source: str
    date: str
    age: str
    old: bool
    lines: int
    amount: str


def total_bar(verdict: Verdict) -> Bar:
    """Return the monthly sum compared with the budget."""
    cost = verdict.after.cost
    (bar,) = _bars({"": cost.total}, {"": verdict.costs.budget}, cost.currency)
    return bar


def charts(verdict: Verdict) -> tuple[Chart, ...]:
    """Return charts by site, by team and by purchase option, the most expensive first."""
    cost, fleet = verdict.after.cost, verdict.after.fleet
    sites = _budgets(fleet.spec.budget.sites if fleet is not None else {})
    teams = _budgets(fleet.spec.budget.teams if fleet is not None else {})
    by_team = cost.by("team")
    found = [
        _chart("By site", {name or "Account": each for name, each in cost.by("site").items()}, sites, cost),
        _chart("By team", {name or "No team": each for name, each in by_team.items()}, teams, cost),
        _chart("By purchase option", sums_by(cost.lines, _option), {}, cost),
    ]
    # Without teams that chart would have a single bar.
    return tuple(
        chart for chart in found if chart.bars and (chart.title != "By team" or set(by_team) != {""})
    )


def _option(line: CostLine) -> str:
    if line.kind == "compute" and line.bought:
        return OPTIONS[line.bought]
    return _KINDS[line.kind]


def _budgets(declared: Mapping[str, Money]) -> dict[str, Decimal | None]:
    return {name: each.amount for name, each in declared.items()}


def _chart(title: str, sums: dict[str, Amount], budgets: dict[str, Decimal | None], cost: FleetCost) -> Chart:
    ordered = dict(sorted(sums.items(), key=lambda item: (-item[1].expected, item[0])))
    return Chart(title, _bars(ordered, budgets, cost.currency), money(_end(ordered, budgets), cost.currency))


def _end(sums: dict[str, Amount], budgets: dict[str, Decimal | None]) -> Decimal:
    limits = [budget for name in sums if (budget := budgets.get(name)) is not None]
    return max([*(each.maximum for each in sums.values()), *limits, Decimal(1)])


def _bars(sums: dict[str, Amount], budgets: dict[str, Decimal | None], currency: str) -> tuple[Bar, ...]:
    end = _end(sums, budgets)

    def place(amount: Decimal) -> float:
        return round(float(amount / end * 100), 2)

    found = []
    for name, each in sums.items():
        budget = budgets.get(name)
        expected = _expected(each, currency)
        span = f"{money(each.minimum, '')} to {money(each.maximum, currency)}"
        flat = each.minimum == each.maximum
        limit = _limit(each, budget, currency)
        words = f"{name + ': ' if name else ''}{expected} a month"
        words += f", {span}" if not flat else ""
        found.append(
            Bar(
                name=name,
                amount=expected,
                range="" if flat else span,
                low=place(each.minimum),
                expected=place(each.expected),
                high=place(each.maximum),
                budget=None if budget is None else place(budget),
                budget_words=limit,
                over=budget is not None and each.expected > budget,
                words=f"{words}, {limit}" if limit else words,
            )
        )
    return tuple(found)


def _limit(each: Amount, budget: Decimal | None, currency: str) -> str:
    if budget is None:
        return ""
    over = "over " if each.expected > budget else "at maximum over " if each.maximum > budget else ""
    return f"{over}budget {money(budget, currency)}"


def _expected(each: Amount, currency: str) -> str:
    """Format a sum: `unknown` if all of it is unknown, a lower bound if a part is."""
    if each.complete:
        return money(each.expected, currency)
    return f"at least {money(each.expected, currency)}" if each.maximum else "unknown"


# -- prices


def price_sources(verdict: Verdict) -> tuple[PriceSource, ...]:
    """Return the sources of all prices, by how much of the monthly cost uses them."""
    cost, today = verdict.after.cost, verdict.judged_at.date()
    found: dict[tuple[str, str | None, bool], list[CostLine]] = {}
    for line in cost.lines:
        if line.known:
            found.setdefault(_origin(line), []).append(line)
    ordered = sorted(found.items(), key=lambda item: -sum((line.expected or Decimal(0)) for line in item[1]))
    sources = []
    for number, ((source, date, own), lines) in enumerate(ordered, 1):
        age = None if date is None else (today - dt.date.fromisoformat(date)).days
        words = "unknown age" if age is None else f"{age:,} d old" if age > 0 else "today"
        sources.append(
            PriceSource(
                number=number,
                source=source or "not named",
                date=date or ("" if own else "no date"),
                age="your own figure" if own else words,
                old=not own and (age is None or age > STALE_AFTER_DAYS),
                lines=len(lines),
                amount=money(
                    sum(((line.expected or Decimal(0)) for line in lines), Decimal(0)), cost.currency
                ),
            )
        )
    return tuple(sources)


def priced_lines(verdict: Verdict) -> dict[str, tuple[PricedLine, ...]]:
    """Return the cost lines by site, the most expensive first; without a price one is `unknown`."""
    cost = verdict.after.cost
    numbers = {(each.source, each.date): each.number for each in price_sources(verdict)}
    found: dict[str, list[PricedLine]] = {}
    for line in sorted(cost.lines, key=lambda each: (-(each.expected or Decimal(0)), each.what)):
        source, date, own = _origin(line)
        key = (source or "not named", date or ("" if own else "no date"))
        found.setdefault(line.site or "Account", []).append(
            PricedLine(
                what=f"{group_name(line.site, line.owner)}: {line.what}",
                basis=line.basis or line.reason,
                amount=money(line.expected, ""),
                range=""
                if line.minimum is None or line.minimum == line.maximum
                else f"{money(line.minimum, '')} to {money(line.maximum, '')}",
                source=numbers.get(key, 0) if line.known else 0,
                assumed=line.assumed,
                estimated=line.estimated,
            )
        )
    return {site: tuple(lines) for site, lines in found.items()}


def _origin(line: CostLine) -> tuple[str, str | None, bool]:
    return line.source, line.date, of_fleet_file(line)
