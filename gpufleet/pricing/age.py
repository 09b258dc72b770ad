"""The age of the prices of a cost. The caller passes the date."""

from __future__ import annotations

import datetime as dt

from msgspec import Struct

from gpufleet.catalog import STALE_AFTER_DAYS
from gpufleet.pricing.models import CostLine, FleetCost

STALE_AFTER = dt.timedelta(days=STALE_AFTER_DAYS)


class StalePrice(Struct, frozen=True):
    """A cost line with an old price. `age` is None if the source has no date."""

    line: CostLine
    age: dt.timedelta | None


def of_fleet_file(line: CostLine) -> bool:
    """Return whether the fleet file declares the price of a line. Such a price has no age."""
    return line.assumed or line.kind in ("power", "ownership", "running")


def price_age(line: CostLine, today: dt.date) -> dt.timedelta | None:
    """Return the age of the price of a line, None if it has no date."""
    return today - dt.date.fromisoformat(line.date) if line.date is not None else None


def stale_prices(
    cost: FleetCost, today: dt.date, limit: dt.timedelta = STALE_AFTER
) -> tuple[StalePrice, ...]:
    """Return the lines with a price older than `limit` or without a date, in order."""
    stale = []
    for line in cost.lines:
        if not line.known or of_fleet_file(line):
            continue
        age = price_age(line, today)
        if age is None or age > limit:
            stale.append(StalePrice(line, age))
    return tuple(stale)
