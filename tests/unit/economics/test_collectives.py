"""Times of collective operations."""

from __future__ import annotations

import pytest

from gpufleet.economics.collectives import COLLECTIVES, Collective, bus_factor, collective_time
from gpufleet.errors import InputError


def test_two_p5_take_what_was_measured() -> None:
    found = collective_time(16, 17_179_869_184, 487.09e9)
    assert round(found.time_s * 1e6) == pytest.approx(66_132, abs=2)
    assert round(found.algbw_bytes_s / 1e9, 2) == 259.78


@pytest.mark.parametrize(
    ("collective", "factor"),
    [("all-reduce", 1.75), ("all-gather", 0.875), ("reduce-scatter", 0.875), ("all-to-all", 0.875),
     ("broadcast", 1.0), ("reduce", 1.0)],
)  # fmt: skip
def test_factors_are_those_of_nccl_tests(collective: Collective, factor: float) -> None:
    assert bus_factor(collective, 8) == factor


def test_every_operation_has_a_factor() -> None:
    assert all(bus_factor(each, 2) > 0 for each in COLLECTIVES)


@pytest.mark.parametrize("ranks", [1, 0, -4])
def test_operation_of_fewer_than_two_ranks_is_refused(ranks: int) -> None:
    with pytest.raises(InputError, match="at least two"):
        collective_time(ranks, 1e9, 1e9)
