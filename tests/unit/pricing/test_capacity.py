"""Capacity Blocks: paid upfront, with a share of each month, by AWS's fee or the catalog's price."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet.pricing.capacity import price_block
from gpufleet.pricing.rates import MONTH, Prices, UnpricedError, settle
from tests.unit.pricing.stacks import CATALOG

H100 = "p5.48xlarge"
PRICES = Prices(CATALOG, "us-east-1")
HOUR = PRICES.node(H100, "capacity-block").expected
DAY = Decimal(24)


def test_block_of_a_day_is_paid_upfront_and_counts_whole() -> None:
    cost = price_block(PRICES, H100, 2, DAY)
    assert cost.what == f"2 x {H100}, capacity-block"
    assert (cost.minimum, cost.expected, cost.maximum, cost.upfront) == (2 * 24 * HOUR,) * 4
    assert cost.notes == ("paid upfront at purchase", "the monthly share is 24 of the block's 24 h")
    assert cost.bought == "capacity-block"


def test_extension_says_that_it_is_one() -> None:
    cost = price_block(PRICES, H100, 1, DAY, extends=DAY)
    assert cost.what == f"1 x {H100}, capacity-block extension"
    assert cost.notes[1] == "the monthly share is 24 of the extension's 24 h"


def test_block_that_exists_is_not_paid_again() -> None:
    cost = price_block(PRICES, H100, 1, DAY, paid=True)
    assert (cost.expected, cost.upfront) == (24 * HOUR, 0)
    assert cost.notes[0] == "already paid: the block exists"


def test_block_of_months_counts_730_hours() -> None:
    cost = price_block(PRICES, H100, 1, MONTH + 270)
    assert cost.upfront == 1000 * HOUR
    assert cost.expected == settle(cost.upfront * MONTH / 1000)
    assert price_block(PRICES, H100, 1, MONTH).expected == MONTH * HOUR


def test_fee_of_aws_is_the_cost_of_a_block() -> None:
    cost = price_block(PRICES, H100, 1, DAY, fee=Decimal("755.52"))
    assert (cost.minimum, cost.expected, cost.upfront) == (Decimal("755.52"),) * 3
    assert cost.basis == "24 of 24 h of the fee of 755.52 USD"


def test_estimated_price_has_a_lower_end() -> None:
    instance = CATALOG.instance("p5en.48xlarge")
    region = next(
        each for each in sorted(instance.regions) if not CATALOG.capacity_block(instance.name, each).known
    )
    prices = Prices(CATALOG, region)
    rate = prices.node(instance.name, "capacity-block")
    cost = price_block(prices, instance.name, 1, DAY)
    assert rate.low < rate.expected
    assert cost.expected == cost.maximum == round(24 * rate.expected, 2)
    assert cost.minimum == settle(cost.expected * rate.low / rate.expected)
    # AWS's fee is exact wherever it is known.
    assert price_block(prices, instance.name, 1, DAY, fee=Decimal(700)).minimum == 700


def test_block_of_unknown_duration_has_no_price() -> None:
    with pytest.raises(UnpricedError, match="the `duration` of the block is not declared"):
        price_block(PRICES, H100, 1, None)
