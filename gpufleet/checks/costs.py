"""Warnings about the plan's cost against the budget and about old prices. Policies enforce the budget."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from gpufleet.checks.rules import FieldFinding, Fleet, check
from gpufleet.pricing.age import STALE_AFTER, stale_prices
from gpufleet.pricing.cloud_budget import cloud_budgets


def _usd(amount: Decimal) -> str:
    return f"{amount:,.0f} USD"


@check("budget-exceeded")
def budget_exceeded(fleet: Fleet) -> Iterator[FieldFinding]:
    """The expected cost and the cost at maximum size are compared with the budget. A fleet may exceed it for
    a short time at maximum size, so this is only a warning."""
    cost = fleet.cost
    path, budget = ("budget", "monthly"), fleet.spec.budget.monthly.amount
    expected, high = cost.total.expected, cost.total.maximum
    bound = "at least " if cost.unknown else ""
    if expected > budget:
        yield FieldFinding(
            path,
            f"the fleet is expected to cost {bound}{_usd(expected)} a month, and its budget is"
            f" {_usd(budget)}",
            "raise the budget, or ask for fewer nodes (`gpufleet plan` shows what costs how much)",
            "warning",
        )
    elif high > budget:
        yield FieldFinding(
            path,
            f"at its maximum size the fleet costs up to {_usd(high)} a month, and its budget is"
            f" {_usd(budget)}",
            "lower `max` of the node groups, or watch the alerts",
            "warning",
        )
    cap = fleet.spec.budget.upfront
    if cap is not None and cost.upfront > cap.amount:
        yield FieldFinding(
            ("budget", "upfront"),
            f"Capacity Blocks cost {_usd(cost.upfront)} upfront, but the cap is {_usd(cap.amount)}",
            "raise the cap, or reserve fewer nodes or days",
            "warning",
        )


@check("price-age")
def price_age(fleet: Fleet) -> Iterator[FieldFinding]:
    """Old prices may be wrong. Prices without a date are shown as undated and do not cause this warning."""
    stale = stale_prices(fleet.cost, fleet.now.date())
    old = [(item.age, item.line) for item in stale if item.age is not None]
    if not old:
        return
    age, line = max(old, key=lambda item: item[0])
    yield FieldFinding(
        ("budget", "monthly"),
        f"{'1 price of this plan is' if len(old) == 1 else f'{len(old)} prices of this plan are'} older than"
        f" {STALE_AFTER.days} days; the oldest, of {line.what}, is from {line.date} ({age.days} days ago)",
        "run `gpufleet catalog refresh` with AWS credentials",
        "warning",
        value=line.date,
    )


@check("budget-cloud-part")
def budget_cloud_part(fleet: Fleet) -> Iterator[FieldFinding]:
    """AWS watches what the racks leave of the budget, which needs the cost of the racks."""
    whole = next(iter(cloud_budgets(fleet.plan)), None)
    if whole is not None and not whole.complete:
        yield FieldFinding(
            ("budget", "monthly"),
            f"the cost of racks is partly unknown, so AWS alerts at {_usd(whole.monthly)}, which is too late",
            "declare `power` of the site, or its part of the budget in budget.sites",
            "warning",
        )


CHECKS = (budget_exceeded, budget_cloud_part, price_age)
