"""Assumed costs of the fleet file: what counts, and what is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.plan.assumptions import amount_of, assumptions_of
from tests.unit.plan.fleets import CATALOG, spec

RULE = "budget-unknown-cost"


def assumed(settings: Any) -> dict[str, Decimal]:
    fleet = spec(policies={RULE: {"settings": settings}})
    found = assumptions_of(fleet)
    assert build_plan(fleet, CATALOG).budget.assume == found
    return dict(found)


def test_valid_entries_count_and_others_are_left_to_the_rule() -> None:
    given = {"train": "120.50 USD", "serve/*": "1 USD", "free": "0 USD", "*": "5 USD", "odd": "many"}
    assert assumed({"assume": given}) == {"train": Decimal("120.50"), "serve/*": Decimal(1)}


@pytest.mark.parametrize("settings", [{}, {"assume": ["train"]}, {"assume": "5 USD"}])
def test_settings_that_are_no_names_and_amounts_assume_nothing(settings: dict[str, Any]) -> None:
    assert assumed(settings) == {}


def test_fleet_file_without_the_rule_and_no_fleet_file_assume_nothing() -> None:
    assert assumptions_of(spec()) == {}
    assert assumptions_of(None) == {}


@pytest.mark.parametrize("pattern", ["*", "**", "?", "[]", " * ", ""])
def test_pattern_that_covers_everything_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="covers every resource"):
        amount_of(pattern, "5 USD")


@pytest.mark.parametrize(
    ("text", "reason"), [("0 USD", "above 0 USD"), ("many", "is not an amount of money")]
)
def test_amount_that_is_nothing_or_no_money_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        amount_of("train", text)
    assert amount_of("train", "0.01 USD") == Decimal("0.01")
