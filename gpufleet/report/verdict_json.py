"""The verdict as JSON: a stable contract. Keys are added, and never renamed or removed.

Money is USD a month, rounded half-even to cents; null is unknown or not computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpufleet.plan.json import cents
from gpufleet.verdict.models import (
    ChangedResource,
    CostDifference,
    Costs,
    ExemptionUse,
    JudgingCode,
    LocatedViolation,
    RackFigures,
    RuleResult,
    Verdict,
)
from gpufleet.verdict.racks import LICENCES


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """Return the whole verdict as plain JSON values."""
    base = verdict.base
    return {
        "verdict": "pass" if verdict.passed else "fail",
        "environment": verdict.environment,
        "engine": verdict.engine,
        "judged_at": verdict.judged_at.isoformat(),
        "fleet_file": verdict.fleet_file,
        "base": None
        if base is None
        else {"ref": base.ref, "commit": base.commit, "new_environment": base.new_environment},
        "rules": [_rule(rule) for rule in verdict.rules],
        "cost": _cost(verdict.costs),
        "changes": {**verdict.counts, "resources": [_change(each) for each in verdict.changes]},
        "onprem": [
            {
                "site": each.site,
                "changed": each.changed,
                "before": _rack(each.before),
                "after": _rack(each.after),
            }
            for each in verdict.racks
        ],
        "licences": {"known": [], "note": LICENCES},
        "exemptions": [_exemption(each) for each in verdict.exemptions],
        "guard": {"files": list(verdict.guard.files), "settings": list(verdict.guard.settings)},
        "judged_by": _judged_by(verdict.judged_by),
        "assumed": list(verdict.assumed),
        "open_changes": [
            {"name": each.name, "increase": cents(each.increase), "reason": each.reason}
            for each in verdict.open_changes
        ],
        "warnings": list(verdict.warnings),
        "duration_s": round(verdict.seconds, 3),
    }


def _judged_by(code: JudgingCode | None) -> dict[str, Any] | None:
    if code is None:
        return None
    second = code.second
    return {
        "code": code.by,
        "left_out": list(code.left_out),
        "verdict_of_base": None if second is None else second.verdict,
        "reason": "" if second is None else second.reason,
    }


def _rule(rule: RuleResult) -> dict[str, Any]:
    return {
        "name": rule.name,
        "enforcement": rule.enforcement,
        "status": rule.status,
        "violations": [_violation(each) for each in rule.violations],
        "title": rule.title,
        "group": rule.group,
        "scope": rule.scope,
        "severity": rule.severity,
        "note": rule.note,
    }


def _violation(each: LocatedViolation) -> dict[str, Any]:
    return {
        "resource": each.resource,
        "message": each.message,
        "file": each.file,
        "line": each.line,
        "name": each.name,
        "effect": each.effect,
        "property": each.prop,
        "remedy": each.remedy,
        "unknown": each.unknown,
    }


def _cost(costs: Costs) -> dict[str, Any]:
    return {
        "before": cents(costs.before),
        "after": cents(costs.after),
        "at_max": cents(costs.at_max),
        "at_max_before": cents(costs.at_max_before),
        "currency": costs.currency,
        "unknown": [
            {
                "resource": each.urn,
                "what": each.what,
                "site": each.site,
                "owner": each.owner,
                "reason": each.reason,
            }
            for each in costs.unknown
        ],
        "budget": cents(costs.budget),
        "upfront": {"before": cents(costs.upfront_before), "after": cents(costs.upfront)},
        "lines": _lines(costs.lines),
        "not_counted": list(costs.not_counted),
        "oldest_price": None if costs.oldest_price is None else costs.oldest_price.isoformat(),
        "oldest_price_days": costs.oldest_price_days,
    }


def _lines(lines: Iterable[CostDifference]) -> list[dict[str, Any]]:
    return [
        {
            "resource": each.urn,
            "what": each.what,
            "site": each.site,
            "owner": each.owner,
            "before": cents(each.before),
            "after": cents(each.after),
            "at_max": cents(each.at_max),
            "at_max_before": cents(each.at_max_before),
            "upfront": cents(each.upfront),
            "changed": each.changed,
            "basis": each.basis,
            "reason": each.reason,
            "estimate": each.estimate,
        }
        for each in lines
    ]


def _change(each: ChangedResource) -> dict[str, Any]:
    return {
        "urn": each.urn,
        "type": each.type,
        "name": each.name,
        "operation": each.operation,
        "site": each.site or None,
        "owner": each.owner or None,
        "diff": list(each.diff),
        "replace_keys": list(each.replace_keys),
        "protected": each.protected,
    }


def _rack(figures: RackFigures | None) -> dict[str, Any] | None:
    if figures is None:
        return None
    return {
        "nodes": figures.nodes,
        "gpus": figures.gpus,
        "hosts": figures.hosts,
        "power_kw": None if figures.power_kw is None else float(figures.power_kw),
        "facility_kw": None if figures.facility_kw is None else float(figures.facility_kw),
        "rack_units": figures.rack_units,
        "racks": figures.racks,
    }


def _exemption(each: ExemptionUse) -> dict[str, Any]:
    return {
        **each.exemption.model_dump(mode="json"),
        "in_force": each.in_force,
        "used": each.used,
        "file": each.file,
        "line": each.line,
    }
