"""Sums and merges of cost lines."""

from __future__ import annotations

from decimal import Decimal

from msgspec.structs import replace

from gpufleet.pricing.models import CostLine, FleetCost, grouped

LINE = CostLine(
    urn="",
    type="",
    name="one",
    what="nodes",
    kind="compute",
    minimum=Decimal(1),
    expected=Decimal(2),
    maximum=Decimal(3),
    upfront=Decimal(5),
    site="use1",
    owner="a",
    basis="2 USD",
)
UNKNOWN = replace(LINE, minimum=None, expected=None, maximum=None, basis="", reason="no price")


def test_equal_items_are_one_line_with_their_sum() -> None:
    (both,) = grouped((LINE, replace(LINE, name="other")))
    assert (both.what, both.name, both.count, both.basis) == ("2 x nodes", "", 2, "2 x 2 USD")
    assert (both.minimum, both.expected, both.maximum, both.upfront) == (2, 4, 6, 10)
    assert grouped((LINE, replace(LINE, owner="b"), UNKNOWN)) == (LINE, replace(LINE, owner="b"), UNKNOWN)


def test_equal_items_without_a_price_stay_unknown() -> None:
    (both,) = grouped((UNKNOWN, UNKNOWN))
    assert (both.name, both.count, both.basis, both.known) == ("one", 2, "", False)
    assert (both.minimum, both.expected, both.maximum) == (None, None, None)


def test_estimated_lines_are_listed() -> None:
    guess = replace(LINE, estimated=True)
    assert FleetCost((LINE, guess)).estimated == (guess,)


def test_lines_without_an_owner_have_one_sum() -> None:
    found = FleetCost((LINE, replace(LINE, owner=""))).by("owner")
    assert {key: each.expected for key, each in found.items()} == {"use1/a": 2, "": 2}


def test_sum_is_known_in_part_if_one_of_its_lines_is() -> None:
    for lines in ((LINE, UNKNOWN), (UNKNOWN, LINE)):
        total = FleetCost(lines).total
        assert (total.known, total.complete, total.expected) == (True, False, 2)
    assert not FleetCost((UNKNOWN,)).total.known
