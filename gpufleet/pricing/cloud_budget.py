"""The part of a budget that AWS Budgets watches: the cloud's.

A fleet's budget covers the cloud and its racks. AWS counts only what AWS charges, so a budget with the whole
amount would send its alerts after the cloud has spent the racks' share too. The rules of `check` judge the
hybrid total.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_DOWN, Decimal
from typing import Annotated, Literal

from msgspec import Struct

from gpufleet.plan.json import MONEY
from gpufleet.plan.marks import TAG_PREFIX
from gpufleet.plan.models import FleetPlan
from gpufleet.pricing.assume import assume
from gpufleet.pricing.book import CostBook
from gpufleet.pricing.models import Amount, sums_by
from gpufleet.pricing.of_plan import price_rack_sites

LEAST = Decimal(1)
"""The limit where nothing is left for the cloud: AWS Budgets rejects 0, and 1 USD reports the first cost."""


class CloudBudget(Struct, frozen=True):
    """One budget in AWS: a limit in USD a month for all resources that have all of `tags`.

    `name` is the site or team of `kind`, and empty for the environment. `basis` is the calculation.
    `complete` is False if the cost of a rack site is unknown: then the limit is too high by that cost.
    """

    kind: Literal["environment", "site", "team"]
    name: str
    monthly: Annotated[Decimal, MONEY]
    tags: Mapping[str, str]
    basis: str
    complete: bool = True


def cloud_budgets(plan: FleetPlan) -> tuple[CloudBudget, ...]:
    """Return the budgets of a fleet's cloud: the environment's, then those of its sites and teams with caps.

    The environment's limit is `monthly` less the cost of the racks, and at most the sum of the caps of all
    cloud sites if each has one. The racks of a site cost what `plan` prices; where a part of that is unknown,
    the site's own cap counts. Empty for a fleet without cloud sites.
    """
    if not plan.cloud:
        return ()
    tags = {key: plan.tags[key] for key in (f"{TAG_PREFIX}fleet", f"{TAG_PREFIX}environment")}
    sites = [site.site for site in plan.cloud if site.site in plan.budget.sites]
    return (
        _environment(plan, tags),
        *(_cap("site", name, plan.budget.sites[name], tags) for name in sites),
        *(_cap("team", name, cap, tags) for name, cap in plan.budget.teams.items()),
    )


def _cap(kind: Literal["site", "team"], name: str, cap: Decimal, tags: Mapping[str, str]) -> CloudBudget:
    return CloudBudget(kind, name, cap, {**tags, f"{TAG_PREFIX}{kind}": name}, f"budget.{kind}s.{name}")


def _environment(plan: FleetPlan, tags: Mapping[str, str]) -> CloudBudget:
    caps, monthly = plan.budget.sites, plan.budget.monthly
    parts, complete, racks = [f"{_usd(monthly)} USD"], True, Decimal(0)
    for name, cost in _rack_costs(plan).items():
        known = cost.complete and cost.known
        amount = cost.expected if known or name not in caps else max(caps[name], cost.expected)
        complete = complete and (known or name in caps)
        racks += amount
        if amount:
            parts.append(f"{_usd(amount)} USD of {name}")
    left = monthly - racks
    together = sum((caps.get(site.site, Decimal(0)) for site in plan.cloud), Decimal(0))
    if all(site.site in caps for site in plan.cloud) and together < left:
        basis = " + ".join(f"{_usd(caps[site.site])} USD of {site.site}" for site in plan.cloud)
        return CloudBudget("environment", "", together, tags, basis)
    # Whole dollars: the price of a rack is not exact to the cent, and its digits would change the budget.
    limit = left if not racks else max(left.to_integral_value(ROUND_DOWN), LEAST)
    return CloudBudget("environment", "", limit, tags, " - ".join(parts), complete)


def _rack_costs(plan: FleetPlan) -> dict[str, Amount]:
    book = CostBook()
    price_rack_sites(plan, book)
    return sums_by(assume(book.lines, plan.budget.assume), lambda line: line.site)


def _usd(amount: Decimal) -> str:
    return f"{amount.to_integral_value(ROUND_DOWN):,}"
