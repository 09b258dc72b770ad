"""`gpufleet cost` as JSON. Money is a number of USD, rounded half-even to cents; null means unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from gpufleet.economics.cost import LineChange
from gpufleet.plan.json import cents
from gpufleet.pricing.models import Amount, CostLine, FleetCost
from gpufleet.pricing.rates import MONTH


def groups_to_json(cost: FleetCost, by: str, groups: Mapping[str, Amount]) -> dict[str, Any]:
    """Return the total and the groups, with the unknown costs beside them."""
    return {
        "currency": cost.currency,
        "total": _amount(cost.total),
        "upfront": cents(cost.upfront),
        "by": by,
        "groups": {name: _amount(amount) for name, amount in groups.items()},
        "unknown": [
            {"site": line.site, "owner": line.owner, "what": line.what, "reason": line.reason}
            for line in cost.unknown
        ],
        "not_counted": list(cost.not_counted),
        "oldest_price": cost.oldest_price,
    }


def changes_to_json(before: FleetCost, after: FleetCost, changes: Sequence[LineChange]) -> dict[str, Any]:
    """Return the totals before, and each line that differs. A difference is null if an amount is unknown."""
    return {
        "before": _amount(before.total),
        "difference": cents(after.total.expected - before.total.expected),
        "changes": [
            {
                "site": change.site,
                "owner": change.owner,
                "what": change.what,
                "before": _line(change.before),
                "after": _line(change.after),
                "difference": None if change.difference is None else cents(change.difference),
            }
            for change in changes
        ],
    }


def hourly(monthly: Decimal) -> Decimal:
    """Return an amount per hour of a month with 730 hours."""
    return monthly / MONTH


def _amount(amount: Amount) -> dict[str, Any]:
    if not amount.known:
        return {"monthly": None, "low": None, "high": None, "hourly": None, "complete": False}
    return {
        "monthly": cents(amount.expected),
        "low": cents(amount.minimum),
        "high": cents(amount.maximum),
        "hourly": cents(hourly(amount.expected)),
        "complete": amount.complete,
    }


def _line(line: CostLine | None) -> dict[str, Any] | None:
    if line is None:
        return None
    return {
        "count": line.count,
        "monthly": None if line.expected is None else cents(line.expected),
        "upfront": cents(line.upfront),
        "source": line.source,
        "date": line.date,
        "reason": line.reason,
    }
