"""Estimates of prices that were not read, from those of other regions.

An estimate is a range from the lowest known price to an upper end above all known ones. The margins are the
smallest round ones with which each price of the catalog lies in the estimate that the other regions give; a
test repeats this.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from msgspec import Struct

from gpufleet.catalog import Price

MARGIN = Decimal("1.35")
"""The upper end divided by the most_expensive known price."""

SPREAD = Decimal("2.1")
"""The least ratio of the upper end to the lowest known price for what differs most between regions:
services, and instance types with fewer than `FEW` different prices (most regions of the US share one)."""

FEW = 3

SPOT_FLOOR = Decimal("0.0999")
"""The lowest ratio of a spot price to the on-demand price in the catalog."""


class Estimate(Struct, frozen=True):
    """A range in USD, the region with the most_expensive known price, and the calculation."""

    low: Decimal
    high: Decimal
    region: str
    how: str


def estimate(known: Mapping[str, Price], *, alike: bool) -> Estimate | None:
    """Return the estimate from prices by region, None if none is known. `alike` prices differ little between
    regions, as those of instances do."""
    amounts = {region: price.amount for region, price in known.items() if price.amount is not None}
    if not amounts:
        return None
    cheapest = min(amounts, key=lambda region: (amounts[region], region))
    most_expensive = max(amounts, key=lambda region: (amounts[region], region))
    low, high = amounts[cheapest], amounts[most_expensive] * MARGIN
    if not alike or len(set(amounts.values())) < FEW:
        high = max(high, low * SPREAD)
    found = f"{low:f} USD in {cheapest}"
    if most_expensive != cheapest:
        found += f" to {amounts[most_expensive]:f} USD in {most_expensive}"
    return Estimate(low, high, most_expensive, f"estimated from {found}, with a margin")
