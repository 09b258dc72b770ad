"""A plan's cost as JSON: a part of the document of `gpufleet plan --json`, `preview --json` and `up --json`.

Keys are added and never renamed or removed. Money is a number of USD, rounded half-even to cents only here;
null means unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet.plan.json import cents, model_to_json
from gpufleet.plan.models import FleetPlan
from gpufleet.pricing.cloud_budget import cloud_budgets
from gpufleet.pricing.models import Amount, CostLine, FleetCost, grouped, sums_by


def cost_to_json(cost: FleetCost, plan: FleetPlan) -> dict[str, Any]:
    """Return the cost of a plan with lines of the same kind merged. `monthly.amount` is the expected cost of
    all lines with a price: a lower bound if `unknown` is not empty, null if no price is known. Costs of the
    account have site "".
    """
    total, lines = cost.total, grouped(cost.lines)
    return {
        "monthly": {
            "amount": cents(total.expected) if total.known else None,
            "low": cents(total.minimum) if total.known else None,
            "high": cents(total.maximum) if total.known else None,
            "currency": cost.currency,
            "unknown": [
                {"site": line.site, "owner": line.owner, "what": line.what, "reason": line.reason}
                for line in lines
                if not line.known
            ],
        },
        "upfront": {"amount": cents(cost.upfront), "currency": cost.currency},
        "budget": {
            "monthly": cents(plan.budget.monthly),
            "currency": cost.currency,
            "aws": [model_to_json(each) for each in cloud_budgets(plan)],
        },
        "by_site": _ranges(cost.by("site")),
        "by_owner": _ranges(cost.by("owner")),
        "by_tag": {key: _ranges(values) for key, values in by_tag(cost, plan).items()},
        "lines": [_line(line) for line in lines if line.known],
        "not_counted": list(cost.not_counted),
    }


def by_tag(cost: FleetCost, plan: FleetPlan) -> dict[str, dict[str, Amount]]:
    """Return sums by tag key and value, with keys in alphabetical order.

    Lines without a key are not in its sums. For a key that only some lines have (a node group's name), the
    sums are less than the total.
    """
    owners = _tags(plan)

    def tags(line: CostLine) -> Mapping[str, str]:
        return owners.get((line.site, line.owner), owners.get((line.site, ""), plan.tags))

    def sums(key: str) -> dict[str, Amount]:
        lines = (line for line in cost.lines if line.known and key in tags(line))
        return sums_by(lines, lambda line: tags(line)[key])

    return {key: sums(key) for key in sorted({key for line in cost.lines for key in tags(line)})}


def _tags(plan: FleetPlan) -> dict[tuple[str, str], Mapping[str, str]]:
    found: dict[tuple[str, str], Mapping[str, str]] = {}
    found |= {(rack.site, ""): rack.tags for rack in plan.onprem}
    for site in plan.cloud:
        found[site.site, ""] = site.tags
        found |= {(site.site, group.name): group.tags for group in site.node_groups}
        found |= {(site.site, system.name): system.tags for system in site.lustre}
        found |= {(site.site, bucket.name): bucket.tags for bucket in site.buckets}
    return found


def _ranges(sums: Mapping[str, Amount]) -> dict[str, dict[str, float | None]]:
    return {key: _range(each) for key, each in sums.items() if each.known}


def _range(cost: Amount | CostLine) -> dict[str, float | None]:
    return {"low": cents(cost.minimum), "expected": cents(cost.expected), "high": cents(cost.maximum)}


def _line(line: CostLine) -> dict[str, Any]:
    upfront = cents(line.upfront) if line.upfront else None
    return {**model_to_json(line), "upfront": upfront, "monthly": _range(line)}
