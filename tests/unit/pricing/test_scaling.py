"""Sizes of groups whose nodes an order for capacity draws."""

from __future__ import annotations

from typing import Any

from gpufleet.resources.types import ORDERED_CAPACITY
from tests.unit.pricing.stacks import NODE, amounts, cost, scaling_group, template


def order(**props: Any) -> dict[str, Any]:
    return {"type": ORDERED_CAPACITY, "name": "order", "props": props}


def sized(*orders: dict[str, Any]) -> tuple[Any, ...]:
    """The cost of a group of one to four nodes, two of them wanted."""
    return amounts(cost(template(), scaling_group(), *orders))


def test_group_costs_the_nodes_that_an_order_expects_and_pays_in_it() -> None:
    place = {"resource": "group", "paid": 2, "expected": 3}
    assert sized(order(places=[[place]])) == (2 * NODE, 3 * NODE, 4 * NODE)
    assert sized(order(places=[[place | {"expected": 1}]])) == (2 * NODE, 2 * NODE, 4 * NODE)
    assert sized(order(places=[[], [place | {"paid": 0, "expected": 6}]])) == (NODE, 6 * NODE, 6 * NODE)


def test_order_without_the_group_changes_no_size() -> None:
    for places in (None, [], [[{"resource": "other", "paid": 3, "expected": 4}]]):
        assert sized(order(places=places)) == sized() == (NODE, 2 * NODE, 4 * NODE)
