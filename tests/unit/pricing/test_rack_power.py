"""The monthly cost of racks in a plan: electricity, and depreciation where it is declared."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gpufleet.plan import build_plan
from gpufleet.plan.models import FleetPlan
from gpufleet.pricing.racks import price_power
from gpufleet.pricing.rates import UnpricedError
from tests.unit.plan.fleets import CATALOG, cost_of, line, rack_site, spec


def _racks(**changes: Any) -> FleetPlan:
    return build_plan(spec(onprem=[rack_site(**changes)]), CATALOG)


def test_racks_cost_electricity_at_expected_and_full_load() -> None:
    monthly = line(_racks(), "racks", "power")
    full = 64 * Decimal("10.2") * Decimal("1.25") * 730 * Decimal("0.11")
    assert monthly.maximum == full == Decimal("65524.80")
    assert monthly.expected == full * Decimal("0.7")
    assert monthly.minimum == monthly.expected


def test_electricity_follows_the_published_formula() -> None:
    """1,024 GPUs of 0.7 kW, 70 % load, PUE 1.2, 0.08 USD/kWh over five years: 2,109,800 USD."""
    plan = _racks(power={"per_rack": "40 kW", "pue": 1.2, "price": "0.08 USD/kWh"})
    expected = line(plan, "racks", "power").expected
    assert expected is not None
    per_kw = expected / (64 * Decimal("10.2"))
    five_years = per_kw * Decimal("0.7") * 1024 * 60
    assert round(five_years) == 2_109_800


def test_racks_of_unknown_power_have_an_unknown_cost() -> None:
    plan = _racks(system="dgx-b300")
    (unknown,) = cost_of(plan).unknown
    assert (unknown.site, unknown.owner) == ("dc1", "racks")
    assert "power" in unknown.reason


def test_racks_without_an_energy_price_have_an_unknown_cost() -> None:
    (unknown,) = cost_of(_racks(power=None)).unknown
    assert "power" in unknown.reason
    assert not cost_of(_racks(power=None)).total.known


def test_ownership_is_depreciated_over_its_lifetime_if_declared() -> None:
    owned = _racks(ownership={"acquisition": "270000 USD", "lifetime": "5 y"})
    assert line(owned, "racks", "ownership").expected == 64 * Decimal(270_000) / 60
    assert not [item for item in cost_of(_racks()).lines if item.kind == "ownership"]
    assert any("no `ownership` declared" in text for text in cost_of(_racks()).not_counted)


def test_running_costs_count_as_declared_and_the_others_are_named() -> None:
    racks = _racks(running_costs={"colocation": "42000 USD", "staff": "25000.50 USD"})
    found = {item.what: item.expected for item in cost_of(racks).lines if item.kind == "running"}
    assert found == {"colocation": 42_000, "staff": Decimal("25000.50")}
    left_out = "dc1: switches, support, and power of other devices than GPU nodes"
    assert left_out in cost_of(racks).not_counted
    assert any("colocation, support, staff, and power" in text for text in cost_of(_racks()).not_counted)


def test_running_cost_of_nothing_is_unknown() -> None:
    (unknown,) = cost_of(_racks(running_costs={"support": "0 USD"})).unknown
    assert "running_costs.support" in unknown.reason


@pytest.mark.parametrize(("pue", "price"), [(None, Decimal("0.11")), (Decimal("1.25"), None), (None, None)])
def test_electricity_without_the_efficiency_or_the_price_is_unknown(
    pue: Decimal | None, price: Decimal | None
) -> None:
    with pytest.raises(UnpricedError, match="declares no `power`"):
        price_power("dgx-h100", 2, Decimal("10.2"), pue, price)
