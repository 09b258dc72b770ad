"""Sensitivity of `tco`, and its spread."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpufleet.economics.tco import OwnedCosts, RentedCosts
from gpufleet.economics.tco_risk import InputRange, TcoCase, ranges_of, simulate_risk, tornado
from gpufleet.errors import InputError

CASE = TcoCase(
    gpus=1024,
    years=5.0,
    utilization=0.7,
    rented=RentedCosts(3.0),
    owned=OwnedCosts(
        acquisition=30_720_000, power_kw=1024 * 0.7, pue=1.2, energy_price=0.08, staff_yearly=500_000
    ),
)


def test_inputs_that_are_0_have_no_range_and_shares_stay_possible() -> None:
    ranges, spread_only = ranges_of(
        replace(CASE, utilization=0.9), 0.2, [InputRange("acquisition", 1e7, 4e7)]
    )
    found = {item.name: (item.low, item.high) for item in ranges}
    assert found["utilization"] == (pytest.approx(0.72), 1.0)
    assert found["pue"] == (pytest.approx(1.16), pytest.approx(1.24))
    assert found["acquisition"] == (1e7, 4e7)
    assert not found.keys() & {"reserved_price", "financing", "support_yearly"}
    assert "acquisition" not in spread_only
    assert "staff_yearly" in spread_only


def test_bars_are_sorted_and_end_where_the_comparison_says() -> None:
    ranges, _ = ranges_of(CASE, 0.2)
    bars = tornado(CASE, ranges)
    assert [bar.swing for bar in bars] == sorted((bar.swing for bar in bars), reverse=True)
    price = next(bar for bar in bars if bar.name == "cloud_price")
    for value, saving in ((price.low, price.saving_at_low), (price.high, price.saving_at_high)):
        found = replace(CASE, rented=RentedCosts(value)).result()
        assert saving == pytest.approx(found.cloud_total - found.owned.total)
    assert price.saving_at_low < price.saving_at_high
    assert {bar.name for bar in bars[:2]} == {"cloud_price", "utilization"}


def test_draws_are_around_the_expected_result_and_the_same_for_a_seed() -> None:
    ranges, _ = ranges_of(CASE, 0.2)
    first, again = (simulate_risk(CASE, ranges, draws=4000, seed=7) for _ in range(2))
    assert first == again
    assert simulate_risk(CASE, ranges, draws=4000, seed=8) != first
    expected = CASE.result()
    low, median, high = first.rented
    assert low < expected.cloud_total < high
    assert median == pytest.approx(expected.cloud_total, rel=0.03)
    assert first.owned[0] < expected.owned.total < first.owned[2]
    assert first.owning_wins > 0.99
    assert first.bands[0].month == 0
    assert first.bands[-1].rented == first.rented


def test_draws_without_ranges_are_the_result_itself() -> None:
    expected = CASE.result()
    found = simulate_risk(CASE, [], draws=3)
    assert found.rented == pytest.approx((expected.cloud_total,) * 3)
    assert found.owned == pytest.approx((expected.owned.total,) * 3)


@settings(max_examples=50)
@given(st.floats(0.05, 0.5), st.floats(0.05, 0.95))
def test_wider_ranges_give_wider_bands(narrow: float, utilization: float) -> None:
    case = replace(CASE, utilization=utilization)
    near, far = (
        simulate_risk(case, [InputRange("cloud_price", 3 * (1 - by), 3 * (1 + by))], draws=500)
        for by in (narrow, narrow * 1.5)
    )
    assert far.rented[2] - far.rented[0] > near.rented[2] - near.rented[0]


def test_impossible_spreads_and_draws_are_refused() -> None:
    with pytest.raises(InputError, match="a spread of 1 is not above 0 and below 1"):
        ranges_of(CASE, 1.0)
    with pytest.raises(InputError, match="0 draws"):
        simulate_risk(CASE, [], draws=0)
