"""Estimates of unknown prices from those of other regions."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.catalog.models import Price
from gpufleet.pricing.estimates import MARGIN, SPREAD, Estimate, estimate


def estimated(*, alike: bool = True, **amounts: int | None) -> Estimate | None:
    known = {
        region: Price(amount=None if amount is None else Decimal(amount), unit="instance-hour")
        for region, amount in amounts.items()
    }
    return estimate(known, alike=alike)


def test_calculation_names_the_cheapest_and_the_most_expensive_region() -> None:
    several = estimated(a=3, b=1, c=2)
    assert several is not None
    assert several.how == "estimated from 1 USD in b to 3 USD in a, with a margin"
    assert (several.low, several.region) == (1, "a")
    one = estimated(a=3)
    assert one is not None
    assert one.how == "estimated from 3 USD in a, with a margin"


def test_few_prices_or_unlike_ones_get_the_wider_range() -> None:
    ranges = [estimated(a=2), estimated(a=2, b=2), estimated(alike=False, a=2, b=3, c=4, d=5)]
    highest = [each.high for each in ranges if each is not None]
    assert highest == [2 * SPREAD, 2 * SPREAD, max(5 * MARGIN, 2 * SPREAD)]


def test_no_price_gives_no_estimate() -> None:
    assert estimated() is None
    assert estimated(a=None) is None
