"""Comparison of the cost before and after a change."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal

from gpufleet.pricing.models import CostLine, FleetCost
from gpufleet.verdict.models import CostDifference, Costs


def compare_costs(
    before: FleetCost | None, after: FleetCost, budget: Decimal | None, today: dt.date
) -> Costs:
    """Return the cost before and after a change. `before` is None if there is no base."""
    old = _by_key(before.lines if before else ())
    new = _by_key(after.lines)
    lines = tuple(
        _difference(old.get(key), new.get(key), compared=before is not None)
        for key in dict.fromkeys([*new, *old])
    )
    oldest = _oldest(after)
    return Costs(
        before=None if before is None else before.total.expected,
        after=after.total.expected,
        at_max_before=None if before is None else before.total.maximum,
        at_max=after.total.maximum,
        currency=after.currency,
        budget=budget,
        upfront_before=None if before is None else before.upfront,
        upfront=after.upfront,
        lines=lines,
        unknown=tuple(line for line in lines if line.reason),
        estimated=tuple(line for line in lines if line.estimate and line.after is not None),
        not_counted=after.not_counted,
        oldest_price=oldest,
        oldest_price_days=None if oldest is None else (today - oldest).days,
    )


def _by_key(lines: Iterable[CostLine]) -> dict[tuple[str, ...], CostLine]:
    """Return lines by a key that a change keeps: resource, kind, and order within both."""
    found: dict[tuple[str, ...], CostLine] = {}
    count: Counter[tuple[str, ...]] = Counter()
    for line in lines:
        # Racks have no URN.
        key = (line.urn, line.site, line.owner, line.kind, line.name)
        found[*key, str(count[key])] = line
        count[key] += 1
    return found


def _difference(old: CostLine | None, new: CostLine | None, *, compared: bool) -> CostDifference:
    line = new or old
    if line is None:
        raise AssertionError("a line is on one side at least")
    changed = compared and (
        old is None
        or new is None
        or (old.expected, old.maximum, old.upfront) != (new.expected, new.maximum, new.upfront)
    )
    return CostDifference(
        what=line.what,
        site=line.site,
        owner=line.owner,
        before=old.expected if old else None,
        after=new.expected if new else None,
        at_max_before=old.maximum if old else None,
        at_max=new.maximum if new else None,
        changed=changed,
        urn=line.urn,
        reason="" if new is None or new.known else new.reason or "no price is known",
        upfront=new.upfront if new else Decimal(0),
        basis=line.basis,
        estimate=line.note if line.estimated else "",
    )


def _oldest(cost: FleetCost) -> dt.date | None:
    dates = [line.date for line in cost.lines if line.date]
    return min((dt.date.fromisoformat(date) for date in dates), default=None)
