"""Renting against owning."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpufleet.economics.tco import OwnedCosts, RentedCosts, TcoResult, cash_over_time, compare, ownership
from gpufleet.errors import InputError

H100 = OwnedCosts(acquisition=30_720_000, power_kw=1024 * 0.7, pue=1.2, energy_price=0.08)


def result(**changes: Any) -> TcoResult:
    values: dict[str, Any] = {
        "gpus": 1024,
        "years": 5.0,
        "utilization": 0.7,
        "rented": RentedCosts(3.0),
        "owned": H100,
    }
    return compare(**(values | changes))


def test_published_case_is_reproduced() -> None:
    """1,024 H100, 5 years, 70 %, PUE 1.2, 0.08 USD/kWh: 2,109,800 USD of energy, 32.83 M in all."""
    found = result().owned
    assert round(found.energy) == 2_109_800
    assert round(found.total / 1e6, 2) == 32.83


def test_compute_cost_is_gpus_times_hours() -> None:
    """64 GPUs for 72 hours at 3 USD."""
    assert 64 * 72 * 3.0 == 13_824
    found = result(gpus=64, years=72 / 8760, utilization=1.0)
    assert found.cloud_total == pytest.approx(13_824)
    assert found.gpu_hours == pytest.approx(4_608)


costs = st.builds(
    OwnedCosts,
    acquisition=st.floats(1e5, 1e8),
    power_kw=st.floats(1, 2_000),
    pue=st.floats(1, 2),
    energy_price=st.floats(0, 0.5),
    idle_share=st.floats(0, 1),
    network_share=st.floats(0, 0.5),
    residual=st.floats(0, 0.5),
    financing=st.floats(0, 0.2),
    support_yearly=st.floats(0, 1e6),
    colocation_yearly=st.floats(0, 1e6),
    staff_yearly=st.floats(0, 1e6),
)


@settings(max_examples=200)
@given(costs, st.floats(0.5, 6), st.floats(0.5, 20))
def test_totals_are_equal_at_the_break_even_utilization(
    owned: OwnedCosts, years: float, price: float
) -> None:
    at = result(owned=owned, years=years, rented=RentedCosts(price)).break_even_utilization
    if at is not None:
        found = result(owned=owned, years=years, rented=RentedCosts(price), utilization=at)
        assert found.cloud_total == pytest.approx(found.owned.total, rel=1e-6)
    else:
        full = result(owned=owned, years=years, rented=RentedCosts(price), utilization=1.0)
        none = result(owned=owned, years=years, rented=RentedCosts(price), utilization=0.0)
        assert full.cloud_total <= full.owned.total or none.owned.total < 0


@settings(max_examples=200)
@given(costs, st.floats(0.1, 1), st.floats(0.5, 20))
def test_rent_has_paid_the_purchase_at_the_break_even_month(
    owned: OwnedCosts, utilization: float, price: float
) -> None:
    owned = replace(owned, residual=0.0)
    month = result(owned=owned, utilization=utilization, rented=RentedCosts(price)).break_even_month
    if month is None:
        found = result(owned=owned, utilization=utilization, rented=RentedCosts(price))
        assert found.cloud_total <= found.owned.total * (1 + 1e-9)
    elif month > 0.1:
        found = result(owned=owned, utilization=utilization, rented=RentedCosts(price), years=month / 12)
        assert found.cloud_total == pytest.approx(found.owned.total, rel=1e-6)


@settings(max_examples=100)
@given(st.integers(1, 100_000), st.floats(0.1, 10), st.floats(0, 1))
def test_rent_grows_with_gpus_hours_and_utilization(gpus: int, years: float, utilization: float) -> None:
    found = result(gpus=gpus, years=years, utilization=utilization)
    assert result(gpus=gpus + 1, years=years, utilization=utilization).cloud_total >= found.cloud_total
    assert result(gpus=gpus, years=years * 1.5, utilization=utilization).cloud_total >= found.cloud_total


def test_parts_add_up_and_residual_is_subtracted() -> None:
    owned = replace(
        H100, network_share=0.15, residual=0.1, financing=0.06, support_yearly=1.0, staff_yearly=2.0
    )
    found = ownership(owned, 5, 0.7)
    assert found.network == pytest.approx(30_720_000 / 0.85 * 0.15)
    assert found.residual == pytest.approx(-0.1 * 30_720_000 / 0.85)
    assert found.financing == pytest.approx(30_720_000 / 0.85 / 2 * 0.06 * 5)
    assert (found.support, found.staff) == (5, 10)
    assert found.total == pytest.approx(
        found.acquisition + found.network + found.financing + found.energy + 15 + found.residual
    )


def test_reserved_gpus_are_paid_used_or_not_and_work_runs_on_them_first() -> None:
    rented = RentedCosts(flexible=4.0, committed_share=0.5, committed=2.0)
    hours = 1024 * 8760 * 5
    for used, expected in ((0.0, 1.0), (0.3, 1.0), (0.5, 1.0), (0.7, 1.8), (1.0, 3.0)):
        assert result(rented=rented, utilization=used).cloud_total == pytest.approx(hours * expected)


@settings(max_examples=200)
@given(costs, st.floats(0.5, 20), st.floats(0, 1), st.floats(0.5, 20))
def test_totals_are_equal_at_the_break_even_with_reserved_gpus(
    owned: OwnedCosts, price: float, share: float, committed: float
) -> None:
    rented = RentedCosts(price, share, committed)
    at = result(owned=owned, rented=rented).break_even_utilization
    if at is not None:
        found = result(owned=owned, rented=rented, utilization=at)
        assert found.cloud_total == pytest.approx(found.owned.total, rel=1e-6)


def test_payments_over_time_end_at_the_totals_and_cross_at_the_break_even_month() -> None:
    owned = replace(H100, residual=0.1, support_yearly=1e6)
    found = result(owned=owned)
    steps = cash_over_time(
        gpus=1024, years=5.0, utilization=0.7, rented=RentedCosts(3.0), owned=owned, months=60
    )
    assert steps[0] == (0.0, 0.0, pytest.approx(30_720_000))
    assert steps[-1] == (60.0, pytest.approx(found.cloud_total), pytest.approx(found.owned.total))
    assert found.break_even_month is not None
    after = next(month for month, rent, paid in steps if rent >= paid)
    assert after - 1 < found.break_even_month <= after


def test_unused_gpus_have_no_cost_per_used_hour() -> None:
    assert result(utilization=0.0).owned_per_gpu_hour is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"utilization": 1.01}, "utilization is 1.01; it must be from 0 to 1"),
        ({"utilization": math.nan}, "utilization is nan"),
        ({"gpus": 0}, "gpus is 0"),
        ({"years": -1}, "years is -1"),
        ({"years": 21}, "years is 21"),
        ({"rented": RentedCosts(0.0)}, "cloud price is 0"),
        ({"rented": RentedCosts(3.0, 1.5)}, "reserved share is 1.5"),
        ({"owned": replace(H100, pue=0.9)}, "PUE is 0.9"),
        ({"owned": replace(H100, acquisition=-1.0)}, "acquisition is -1"),
        ({"owned": replace(H100, network_share=1.0)}, "network share is 1"),
        ({"owned": replace(H100, residual=2.0)}, "residual value is 2"),
        ({"owned": replace(H100, power_kw=math.inf)}, "power is inf"),
    ],
)
def test_absurd_values_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        result(**changes)


def test_all_absurd_values_are_reported_together() -> None:
    with pytest.raises(InputError, match=r"gpus is 0.*PUE is 9"):
        result(gpus=0, owned=replace(H100, pue=9.0))
