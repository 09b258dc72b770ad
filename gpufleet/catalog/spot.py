"""Summary of a region's spot prices, for the shipped data and for `catalog refresh`."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from decimal import Decimal
from statistics import median

from gpufleet.catalog.models import SpotPrices

_ZONE_ID = re.compile(r"[a-z]+\d-az\d+")


def is_zone_id(name: str) -> bool:
    """Return whether `name` is the id of an availability zone (`use1-az1`), not of a local zone."""
    return _ZONE_ID.fullmatch(name) is not None


def summarise_spot(
    by_zone_id: Mapping[str, Decimal],
    on_demand: Decimal | None,
    *,
    source: str,
    date: dt.date | None = None,
) -> SpotPrices | None:
    """Return the prices of one type in one region, USD per instance-hour; None without prices.

    Local zones are ignored. A zone whose price equals on-demand has no spare capacity, and is excluded from
    the median unless all zones are like this.
    """
    zones = {zone: price for zone, price in by_zone_id.items() if is_zone_id(zone) and price > 0}
    if not zones:
        return None
    market = [price for price in zones.values() if on_demand is None or price < on_demand]
    return SpotPrices(
        low=min(zones.values()),
        median=median(market or list(zones.values())),
        high=max(zones.values()),
        by_zone_id=zones,
        source=source,
        date=date,
    )
