"""Declared costs of racks that make them look free."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checks.fleets import Judge

SITE = "onprem.0"
OWNED = {"acquisition": "270000 USD", "lifetime": "5 y"}


@pytest.mark.parametrize(
    ("field", "declared", "rule"),
    [
        ("ownership", {**OWNED, "lifetime": "11 y"}, "rack-lifetime"),
        ("ownership", {**OWNED, "lifetime": "100 y"}, "rack-lifetime"),
        ("ownership", {**OWNED, "acquisition": "9999.99 USD"}, "rack-purchase"),
        ("power", {"per_rack": "40 kW", "pue": 1.0, "price": "0.0099 USD/kWh"}, "rack-energy-price"),
    ],
)
def test_cost_far_below_what_people_pay_is_refused(
    judge: Judge, field: str, declared: dict[str, Any], rule: str
) -> None:
    finding = judge({f"{SITE}.{field}": declared}).only(rule)
    assert finding.severity == "error"
    assert finding.field.startswith(f"onprem[0].{field}.")
    assert finding.remedy


@pytest.mark.parametrize(
    ("field", "declared"),
    [
        ("ownership", {**OWNED, "lifetime": "10 y"}),
        ("ownership", {**OWNED, "acquisition": "10000 USD"}),
        ("power", {"per_rack": "40 kW", "pue": 1.0, "price": "0.01 USD/kWh"}),
    ],
)
def test_low_cost_passes(judge: Judge, field: str, declared: dict[str, Any]) -> None:
    assert judge({f"{SITE}.{field}": declared}).rules == set()


def test_remedy_names_the_longest_lifetime(judge: Judge) -> None:
    finding = judge({f"{SITE}.ownership": {**OWNED, "lifetime": "11 y"}}).only("rack-lifetime")
    assert finding.remedy.endswith("written off, 10 at most")


def test_rack_without_a_price_of_energy_is_not_judged(judge: Judge) -> None:
    assert judge({f"{SITE}.power": None}).of("rack-energy-price") == []
