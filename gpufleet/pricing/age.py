"""How old the prices of a cost are. The clock is the caller's: a cost itself knows no date."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from gpufleet.catalog import STALE_AFTER_DAYS
from gpufleet.pricing.models import CostLine, FleetCost

STALE_AFTER = dt.timedelta(days=STALE_AFTER_DAYS)


@dataclass(frozen=True, slots=True)
class StalePrice:
    """A cost line whose price is old. `age` is None when no source says when it was read."""

    line: CostLine
    age: dt.timedelta | None


def of_fleet_file(line: CostLine) -> bool:
    """Whether the fleet file itself declares the price of a line: such a price has no age."""
    return line.assumed or line.kind in ("power", "ownership")


def price_age(line: CostLine, today: dt.date) -> dt.timedelta | None:
    """How long ago the price of a line was read; None for an undated one."""
    return today - dt.date.fromisoformat(line.date) if line.date is not None else None


def stale_prices(
    cost: FleetCost, today: dt.date, limit: dt.timedelta = STALE_AFTER
) -> tuple[StalePrice, ...]:
    """The known lines with a price older than `limit` or undated, in order."""
    stale = []
    for line in cost.lines:
        if not line.known or of_fleet_file(line):
            continue
        age = price_age(line, today)
        if age is None or age > limit:
            stale.append(StalePrice(line, age))
    return tuple(stale)
