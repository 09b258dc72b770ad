"""The spot price range of a region."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet.catalog import SpotPrices
from gpufleet.catalog.spot import is_zone_id, summarise_spot


def summary(prices: dict[str, str], on_demand: str | None = None) -> SpotPrices | None:
    return summarise_spot(
        {zone: Decimal(price) for zone, price in prices.items()},
        None if on_demand is None else Decimal(on_demand),
        source="a test",
    )


def test_zone_at_the_on_demand_price_is_in_the_range_but_not_the_median() -> None:
    spot = summary({"use1-az1": "10", "use1-az2": "3", "use1-az3": "5"}, on_demand="10")
    assert spot is not None
    assert (spot.low, spot.median, spot.high) == (3, 4, 10)


def test_median_is_the_on_demand_price_if_every_zone_costs_that() -> None:
    spot = summary({"use1-az1": "10", "use1-az2": "10"}, on_demand="10")
    assert spot is not None
    assert spot.median == 10


def test_every_zone_counts_without_an_on_demand_price() -> None:
    spot = summary({"use1-az1": "10", "use1-az2": "3", "use1-az3": "5"})
    assert spot is not None
    assert spot.median == 5


def test_local_zone_and_price_of_0_are_skipped() -> None:
    spot = summary({"use1-atl2-az1": "1", "use1-az2": "0", "use1-az3": "5"})
    assert spot is not None
    assert spot.by_zone_id == {"use1-az3": Decimal(5)}
    assert summary({"use1-atl2-az1": "1", "use1-az2": "0"}) is None
    assert summary({}) is None


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("use1-az1", True),
        ("apse4-az2", True),
        ("use1-atl2-az1", False),
        ("us-east-1a", False),
        ("use1-az", False),
    ],
)
def test_zone_ids_differ_from_local_zones_and_zone_names(name: str, is_one: bool) -> None:
    assert is_zone_id(name) is is_one
