"""How old the prices of a plan are. The clock is the caller's: a plan itself knows no date."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from gpufleet.catalog import STALE_AFTER_DAYS
from gpufleet.plan.models import CostLine, CostPlan

STALE_AFTER = dt.timedelta(days=STALE_AFTER_DAYS)


@dataclass(frozen=True, slots=True)
class StalePrice:
    """A cost line whose price is old. `age` is None when nobody said when it was read."""

    line: CostLine
    age: dt.timedelta | None


def price_age(line: CostLine, today: dt.date) -> dt.timedelta | None:
    """How long ago the price of a line was read; None for an undated one."""
    return today - dt.date.fromisoformat(line.date) if line.date is not None else None


def stale_prices(cost: CostPlan, today: dt.date, limit: dt.timedelta = STALE_AFTER) -> tuple[StalePrice, ...]:
    """The lines with a price older than `limit` or undated, in order.

    Lines whose price the fleet file itself declares (electricity, ownership) have no age.
    """
    stale = []
    for line in cost.lines:
        if line.kind in ("power", "ownership"):
            continue
        age = price_age(line, today)
        if age is None or age > limit:
            stale.append(StalePrice(line, age))
    return tuple(stale)
