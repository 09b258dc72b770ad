"""Intervals between checkpoints, against the worked cases and a simulation of failures."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.economics.checkpoints import checkpoint_plan, slowdown
from gpufleet.economics.training import GPU_HOURS_PER_FAILURE
from gpufleet.errors import InputError

MTBF_S = 3.093 * 3600


@pytest.mark.parametrize(("checkpoint_s", "interval_s"), [(30, 817), (60, 1156), (120, 1635), (300, 2585)])
def test_interval_is_that_of_the_worked_cases(checkpoint_s: float, interval_s: int) -> None:
    assert round(checkpoint_plan(checkpoint_s, MTBF_S).interval_s) == interval_s


def test_mtbf_of_the_llama_3_run_follows_from_its_counts_not_its_shares() -> None:
    unexpected = 148 + 72 + 54 + 35 + 32 + 19 + 17 + 7 + 7 + 6 + 6 + 3 + 3 + 2 * 5
    assert unexpected == 419
    assert round(54 * 24 / unexpected, 3) == 3.093
    assert round(16_384 * 54 * 24 / unexpected) == GPU_HOURS_PER_FAILURE


@settings(max_examples=200)
@given(st.floats(1, 600), st.floats(3_600, 1e7))
def test_no_other_interval_wastes_less(checkpoint_s: float, mtbf_s: float) -> None:
    best = checkpoint_plan(checkpoint_s, mtbf_s)
    assert math.isclose(best.waste_fraction, math.sqrt(2 * checkpoint_s / mtbf_s))
    for factor in (0.5, 0.9, 1.1, 2.0):
        other = checkpoint_plan(checkpoint_s, mtbf_s, interval_s=factor * best.interval_s)
        assert other.waste_fraction > best.waste_fraction


@settings(max_examples=100)
@given(st.floats(1, 300), st.floats(10_000, 1e6))
def test_daly_interval_has_the_least_elapsed_time(checkpoint_s: float, mtbf_s: float) -> None:
    daly = checkpoint_plan(checkpoint_s, mtbf_s).daly_interval_s
    best = slowdown(daly, checkpoint_s, mtbf_s)
    for factor in (0.8, 1.25):
        assert best <= slowdown(factor * daly, checkpoint_s, mtbf_s)


def test_slowdown_is_that_of_a_simulation() -> None:
    checkpoint_s, mtbf_s, interval_s, restart_s = 120.0, 7_200.0, 1_200.0, 300.0
    draw = random.Random(7)
    elapsed = done = 0.0
    for _ in range(20_000):
        needed = interval_s + checkpoint_s
        while True:
            failure = draw.expovariate(1 / mtbf_s)
            if failure >= needed:
                elapsed += needed
                break
            elapsed += failure
            needed = restart_s + interval_s + checkpoint_s
        done += interval_s
    assert elapsed / done == pytest.approx(slowdown(interval_s, checkpoint_s, mtbf_s, restart_s), rel=0.02)


def test_long_checkpoints_leave_the_first_order() -> None:
    assert checkpoint_plan(60, MTBF_S).first_order_holds
    assert not checkpoint_plan(2_000, MTBF_S).first_order_holds


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ((0, 1), "checkpoint is 0 s"),
        ((60, -1), "mtbf is -1 s"),
        ((math.nan, 60), "checkpoint is nan s"),
        ((60, math.inf), "mtbf is inf s"),
        ((60, 60), "would compute nothing"),
    ],
)
def test_impossible_times_are_refused(values: tuple[float, float], says: str) -> None:
    with pytest.raises(InputError, match=says):
        checkpoint_plan(*values)


def test_restart_counts_and_must_leave_time() -> None:
    with_restart = checkpoint_plan(60, 3_600, restart_s=600)
    assert with_restart.waste_fraction == pytest.approx(math.sqrt(120 / 3_600) + 600 / 3_600)
    with pytest.raises(InputError, match="restart of 3600 s"):
        checkpoint_plan(60, 3_600, restart_s=3_600)
    with pytest.raises(InputError, match="must not be negative"):
        checkpoint_plan(60, 3_600, restart_s=-1)
