"""Sizes of groups, and costs of fixed quantities."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.pricing.cost import ONE, Sizes, steady
from gpufleet.pricing.rates import Rate

RATE = Rate(Decimal(1), Decimal(2), Decimal(4), "AWS", "2026-07-01")


def test_only_sizes_that_differ_are_a_span() -> None:
    assert ONE.span("nodes") == ""
    for sizes in (Sizes(1, 1, 2), Sizes(0, 2, 2), Sizes(0, 1, 2)):
        assert sizes.span("nodes") == f"; {sizes.minimum} to 2 nodes"


def test_sizes_are_bounded_from_both_sides() -> None:
    sizes = Sizes(1, 2, 4)
    assert sizes.least(2) == Sizes(2, 2, 4)
    assert sizes.within(Sizes(2, 1, 3)) == Sizes(1, 1, 3)
    assert sizes.without(Sizes(2, 1, 1)) == Sizes(0, 1, 3)


def test_fixed_quantity_costs_it_at_each_price() -> None:
    cost = steady("gateway", "network", Decimal(3), "3 x 2 USD", RATE)
    assert (cost.minimum, cost.expected, cost.maximum) == (3, 6, 12)
    assert cost.left_out == ()
    assert cost.lowest_ratio == Decimal("0.25")
    assert steady("gateway", "network", Decimal(3), "", RATE, left_out="traffic").left_out == ("traffic",)
