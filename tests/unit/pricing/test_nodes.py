"""The cost of nodes by type, weight and purchase option."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet.pricing.cost import Sizes
from gpufleet.pricing.nodes import (
    IN_RESERVATION,
    ON_DEMAND,
    SPOT,
    SPOT_OR_ON_DEMAND,
    Choice,
    Market,
    price_nodes,
)
from gpufleet.pricing.rates import MONTH, Prices
from tests.unit.pricing.stacks import CATALOG, HOUR, TYPE

PRICES = Prices(CATALOG, "us-east-1")
FOUND = CATALOG.spot(TYPE, "us-east-1")
assert FOUND is not None
SPOT_PRICE = FOUND
ONE = [Choice(TYPE)]


@pytest.mark.parametrize(
    ("market", "name"),
    [
        (ON_DEMAND, "on-demand"),
        (IN_RESERVATION, "odcr"),
        (SPOT, "spot"),
        (SPOT_OR_ON_DEMAND, "spot, else on-demand"),
        (Market(2, 0), "on-demand and spot"),
        (Market(0, 50), "on-demand and spot"),
    ],
)
def test_purchase_options_have_a_name(market: Market, name: str) -> None:
    assert market.name == name
    cost = price_nodes(PRICES, ONE, Sizes(0, 1, 4), market)
    assert cost.bought == name
    assert ("a reservation costs the on-demand price, used or not" in cost.notes) is (name == "odcr")


def test_base_and_rounded_up_part_of_the_others_are_on_demand_nodes() -> None:
    market = Market(2, 50)
    assert [market.on_demand(nodes) for nodes in range(7)] == [0, 1, 2, 3, 3, 4, 4]


def test_group_without_nodes_costs_nothing() -> None:
    cost = price_nodes(PRICES, [Choice(TYPE, 4)], Sizes.fixed(0), ON_DEMAND)
    assert (cost.minimum, cost.expected, cost.maximum) == (0, 0, 0)
    assert cost.basis == f"0 x {TYPE} x 730 h x 0 USD/h"


def test_group_with_weights_may_exceed_its_maximum_by_a_part_of_a_node() -> None:
    cost = price_nodes(PRICES, [Choice(TYPE, 4)], Sizes(0, 4, 8), ON_DEMAND)
    assert cost.expected == HOUR * MONTH
    assert cost.maximum == 11 * MONTH * HOUR / 4
    assert cost.basis.endswith("; 0 to 11 units")


def test_spot_nodes_that_fall_back_cost_at_most_the_on_demand_price() -> None:
    cost = price_nodes(PRICES, ONE, Sizes(1, 2, 4), SPOT_OR_ON_DEMAND)
    assert (cost.minimum, cost.expected) == (MONTH * SPOT_PRICE.low, 2 * MONTH * SPOT_PRICE.median)
    assert cost.maximum == 4 * MONTH * max(HOUR, SPOT_PRICE.high)
    assert cost.basis.endswith("; 1 to 4 nodes")


def test_maximum_price_caps_spot_nodes_alone() -> None:
    cost = price_nodes(PRICES, ONE, Sizes(1, 2, 2), Market(1, 0, spot_most=Decimal("0.001")))
    assert (cost.minimum, cost.expected) == (MONTH * HOUR, MONTH * (HOUR + Decimal("0.001")))
