"""`gpufleet report`: a fleet and its verdict as one page without scripts or network access."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from gpufleet.catalog import STALE_AFTER_DAYS
from gpufleet.plan.models import FleetPlan
from gpufleet.report import verdict_words as words
from gpufleet.report.fleet_costs import charts, price_sources, priced_lines, total_bar
from gpufleet.report.fleet_picture import OPTIONS, fleet_pictures
from gpufleet.report.money import money
from gpufleet.report.pages import render_page
from gpufleet.verdict.models import CostDifference, RuleResult, Verdict

_SHOWN = 200
"""Maximum number of violations of a rule, and of table lines. The page states how many are omitted."""
_OPERATIONS = {"create": "add", "update": "warn", "replace": "del", "delete": "del"}


def fleet_page(verdict: Verdict) -> str:
    """Return the page: cost and verdict first, then the fleet, its cost, changes and prices.

    It shows what `gpufleet check` computed. Raises ValueError for a verdict without a plan.
    """
    plan, costs = verdict.after.plan, verdict.costs
    if plan is None:
        raise ValueError(f"the verdict on {verdict.environment} holds no plan")
    return render_page(
        "fleet.html.j2",
        "fleet.css",
        title=f"{plan.fleet}/{plan.environment}: fleet report",
        plan=plan,
        verdict=verdict,
        headline=words.headline(verdict),
        against=words.against(verdict),
        total=total_bar(verdict),
        amount=words.total(costs.after, costs),
        facts=_facts(verdict, plan),
        judged=verdict.judged_at.strftime("%Y-%m-%d %H:%M UTC"),
        problems=[_rule(rule) for rule in verdict.rules if rule.status in ("failed", "advisory", "exempted")],
        passed=[rule for rule in verdict.rules if rule.status == "passed"],
        disabled=[rule for rule in verdict.rules if rule.status == "disabled"],
        exemptions=[(f"{each.file}:{each.line}", words.exemption_text(each)) for each in verdict.exemptions],
        sites=fleet_pictures(verdict),
        options=_options_used(plan),
        charts=charts(verdict),
        unknown=[(words.line_name(line), words.one_line(line.reason)) for line in costs.unknown],
        changes=None if verdict.base is None else _changes(verdict),
        price_age=words.price_age(costs),
        stale_after=STALE_AFTER_DAYS,
        sources=price_sources(verdict),
        lines=priced_lines(verdict),
    )


def _facts(verdict: Verdict, plan: FleetPlan) -> list[tuple[str, str]]:
    """Return name and value of the main facts."""
    costs = verdict.costs
    found = []
    if costs.budget is not None:
        share = f" ({costs.after / costs.budget * 100:,.0f}%)" if costs.budget else ""
        found.append(("Budget", money(costs.budget, costs.currency) + share))
    at_least = verdict.after.cost.total.minimum
    found.append(
        ("Minimum to maximum size", f"{money(at_least, '')} to {money(costs.at_max, costs.currency)}")
    )
    if costs.upfront:
        found.append(("Paid upfront, once", money(costs.upfront, costs.currency)))
    if costs.increase is not None:
        found.append(("This change", words.difference(costs)))
    if costs.unknown:
        found.append(("Without a known price", f"{len(costs.unknown)} (not in the sums)"))
    found.append(("GPUs at maximum", f"{plan.gpus_at_maximum:,}"))
    found.append(("Software channel", plan.software_channel))
    return found


def _options_used(plan: FleetPlan) -> list[tuple[str, str]]:
    used = {group.capacity.kind for group in plan.node_groups}
    return [(kind, name) for kind, name in OPTIONS.items() if kind in used]


def _rule(rule: RuleResult) -> dict[str, Any]:
    return {
        "rule": rule,
        "tone": {"failed": "bad", "advisory": "warn"}.get(rule.status, "dim"),
        "word": {"failed": "Failed", "advisory": "Advice", "exempted": "Exempted"}[rule.status],
        "violations": rule.violations[:_SHOWN],
        "more": max(0, len(rule.violations) - _SHOWN),
    }


def _changes(verdict: Verdict) -> dict[str, Any]:
    costs, changed = verdict.costs, words.shown_lines(verdict.costs)
    groups = words.grouped(verdict.changes)
    return {
        "words": words.changes_summary(verdict),
        "difference": words.difference(costs),
        "lines": [_cost_row(line) for line in changed[:_SHOWN]],
        "more": max(0, len(changed) - _SHOWN),
        "total": words.total_amounts(costs),
        "racks": [(each.site, words.rack_rows(each)) for each in verdict.racks if each.changed],
        "groups": [
            {
                "name": words.group_name(site, owner),
                "resources": [
                    (each.operation, _OPERATIONS[each.operation], words.resource_text(each))
                    for each in islice(resources, _SHOWN)
                ],
                "count": len(resources),
                "more": max(0, len(resources) - _SHOWN),
                # Show losses first.
                "open": any(each.operation in ("replace", "delete") for each in resources),
            }
            for (site, owner), resources in groups.items()
        ],
        "open_changes": [
            (words.one_line(each.name, 80), money(each.increase, costs.currency), each.reason)
            for each in verdict.open_changes
        ],
    }


def _cost_row(line: CostDifference) -> tuple[str, Sequence[str]]:
    return words.line_name(line), words.line_amounts(line)
