"""Simulated jobs: agreement with Daly's formula, cost by trace, waiting, deadline, what is refused."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpufleet.economics.checkpoints import checkpoint_plan, slowdown
from gpufleet.economics.simulation import Fallback, Job, Simulation, SpotMarket, simulate
from gpufleet.economics.traces import StepTrace
from gpufleet.errors import InputError

HOUR = 3600.0
JOB = Job(work_s=10 * HOUR, nodes=1, checkpoint_s=0.0, interval_s=HOUR)
START = datetime(2026, 1, 1, tzinfo=UTC)


def trace(*steps: tuple[float, float]) -> StepTrace:
    """Hours and values; the last hour ends the trace."""
    return StepTrace(
        START, tuple(hours * HOUR for hours, _ in steps), tuple(value for _, value in steps[:-1]), "trace"
    )


@pytest.mark.parametrize(
    ("nodes", "checkpoint_s", "mtbf_h", "restart_s"),
    [(1, 60, 3.093, 0), (8, 60, 3.093, 300), (8, 300, 3.093, 600), (64, 120, 24, 900)],
)
def test_mean_time_is_that_of_dalys_formula(
    nodes: int, checkpoint_s: float, mtbf_h: float, restart_s: float
) -> None:
    """Within four standard errors of the mean."""
    plan = checkpoint_plan(checkpoint_s, mtbf_h * HOUR, restart_s=restart_s)
    job = Job(40 * plan.interval_s, nodes, checkpoint_s, plan.interval_s, restart_s)
    found = simulate(job, SpotMarket(10.0, reclaim_s=mtbf_h * HOUR * nodes), runs=20_000)
    ratios = found.finish_s / job.work_s
    error = float(np.std(ratios)) / math.sqrt(ratios.size)
    assert abs(float(np.mean(ratios)) - plan.expected_slowdown) < 4 * error
    assert found.cost is not None
    assert found.cost == pytest.approx(found.finish_s / HOUR * 10 * nodes), "nothing waits, all is paid"


def test_failures_and_reclaims_together_interrupt_as_often_as_their_sum() -> None:
    job = replace(JOB, checkpoint_s=30.0)
    both = simulate(job, SpotMarket(1.0, failure_s=8 * HOUR, reclaim_s=8 * HOUR), runs=20_000)
    one = simulate(job, SpotMarket(1.0, reclaim_s=4 * HOUR), runs=20_000, seed=1)
    assert float(np.mean(both.finish_s)) == pytest.approx(float(np.mean(one.finish_s)), rel=0.01)


def test_job_without_interruptions_takes_its_time_and_costs_its_price() -> None:
    found = simulate(replace(JOB, nodes=4, checkpoint_s=60.0), SpotMarket(2.5), runs=3)
    assert found.finish_s.tolist() == [10 * HOUR + 600] * 3
    assert found.cost is not None
    assert found.cost == pytest.approx([4 * 2.5 * (10 + 1 / 6)] * 3)
    assert found.interruptions.tolist() == [0, 0, 0]


def test_same_seed_gives_the_same_runs_and_another_one_others() -> None:
    market = SpotMarket(1.0, reclaim_s=5 * HOUR, wait_s=600)
    first, again, other = (simulate(JOB, market, runs=50, seed=seed) for seed in (3, 3, 4))
    assert first.finish_s.tolist() == again.finish_s.tolist() != other.finish_s.tolist()


def test_price_of_a_trace_is_that_of_the_hours_of_the_run() -> None:
    """10 hours from any start within 1 USD for 5 h and 3 USD for 5 h, repeated, cost 20 USD."""
    found = simulate(JOB, SpotMarket(trace((0, 1), (5, 3), (10, 0))), runs=200)
    assert found.cost is not None
    assert found.cost == pytest.approx([20.0] * 200)


def test_job_runs_only_while_all_its_nodes_can_be_had() -> None:
    """4 of 5 hours have 8 nodes: 10 hours of work need 2 to 3 hours of waiting, and lose none to rework."""
    capacity = trace((0, 8), (4, 7), (5, 8))
    job = replace(JOB, nodes=8, interval_s=1.0)
    found = simulate(job, SpotMarket(1.0, capacity=capacity), runs=500)
    assert float(found.finish_s.min()) >= 12 * HOUR - 1
    assert float(found.finish_s.max()) <= 13 * HOUR + 3
    assert found.cost is not None
    assert found.cost == pytest.approx([80.0] * 500, rel=1e-3), "time without nodes is not paid"
    smaller = simulate(replace(job, nodes=7), SpotMarket(1.0, capacity=capacity), runs=500)
    assert smaller.finish_s == pytest.approx([10 * HOUR] * 500)


def test_outage_at_the_end_of_a_trace_continues_at_its_beginning() -> None:
    capacity = trace((0, 0), (1, 1), (4, 0), (5, 0))
    found = simulate(replace(JOB, interval_s=1.0), SpotMarket(1.0, capacity=capacity), runs=500)
    assert float(found.finish_s.min()) >= 16 * HOUR - 1, "3 of 5 hours have capacity"
    assert float(found.finish_s.max()) <= 18 * HOUR + 5


def test_nodes_are_lost_while_the_price_is_above_the_accepted_one() -> None:
    prices = trace((0, 1), (4, 9), (5, 1))
    found = simulate(replace(JOB, interval_s=1.0), SpotMarket(prices, max_price=2.0), runs=200)
    assert float(found.finish_s.min()) >= 12 * HOUR - 1
    assert found.cost is not None
    assert found.cost == pytest.approx([10.0] * 200, rel=1e-3)


def test_nodes_that_were_not_reclaimed_are_paid_while_the_job_waits() -> None:
    job = replace(JOB, nodes=4)
    market = SpotMarket(1.0, reclaim_s=20 * HOUR, wait_s=HOUR)
    held, released = simulate(job, market), simulate(job, replace(market, held=False))
    assert held.cost is not None
    assert released.cost is not None
    waited = float(np.sum(held.cost) - np.sum(released.cost)) / 3
    assert waited == pytest.approx(float(np.sum(held.interruptions)), rel=0.05), "an hour each, 3 nodes"


@settings(max_examples=40)
@given(
    st.floats(2, 30),
    st.floats(600, 7200),
    st.floats(0, 600),
    st.floats(0, 1800),
    st.floats(0, 7200),
    st.floats(1.0, 3.0),
)
def test_job_that_can_change_to_on_demand_meets_each_feasible_deadline(
    reclaim_h: float, interval: float, checkpoint: float, restart: float, wait: float, times: float
) -> None:
    job = Job(10 * HOUR, 2, checkpoint, interval, restart)
    deadline = job.undisturbed_s * times + restart
    market = SpotMarket(1.0, reclaim_s=reclaim_h * HOUR * 2, wait_s=wait)
    assume(slowdown(interval, checkpoint, reclaim_h * HOUR, restart) < 9)
    found = simulate(job, market, runs=100, fallback=Fallback(4.0, deadline))
    assert found.meets(deadline) == 1.0
    assert found.cost is not None
    assert float(found.cost.max()) <= 4.0 * 2 * deadline / HOUR * (1 + 1e-9)


def test_job_with_time_to_spare_stays_on_spot() -> None:
    found = simulate(JOB, SpotMarket(1.0, reclaim_s=1e9), runs=20, fallback=Fallback(4.0, 20 * HOUR))
    assert not found.fallback.any()
    late = simulate(JOB, SpotMarket(1.0, reclaim_s=1e9), runs=20, fallback=Fallback(4.0, 9 * HOUR))
    assert late.fallback.all()
    assert late.meets(9 * HOUR) == 0.0
    assert late.cost is not None
    assert late.cost == pytest.approx([40.0] * 20)


@settings(max_examples=30)
@given(st.integers(1, 30), st.integers(1, 30), st.floats(1, 50), st.floats(1, 50))
def test_cost_grows_with_nodes_and_hours(few: int, more: int, short: float, longer: float) -> None:
    nodes, hours = sorted((few, more)), sorted((short, longer))

    def cost(count: int, work_h: float) -> float:
        job = Job(work_h * HOUR, count, 60.0, HOUR)
        found = simulate(job, SpotMarket(1.0, reclaim_s=1e6 * count), runs=200).cost
        assert found is not None
        return float(np.mean(found))

    assert cost(nodes[0], hours[0]) <= cost(nodes[1], hours[0]) * (1 + 1e-9)
    assert cost(nodes[0], hours[0]) <= cost(nodes[0], hours[1]) * 1.05


def test_cost_without_a_price_is_unknown_and_never_0() -> None:
    assert simulate(JOB, SpotMarket(None, reclaim_s=HOUR * 50)).cost is None
    late = Fallback(None, 9 * HOUR)
    assert simulate(JOB, SpotMarket(1.0), fallback=late).cost is None


def test_run_that_does_not_finish_is_counted_and_infinite() -> None:
    """Capacity for half an hour at a time, and a checkpoint only after an hour of work."""
    found: Simulation = simulate(JOB, SpotMarket(1.0, capacity=trace((0, 1), (0.5, 0), (1, 0))), runs=20)
    assert found.unfinished == 1.0
    assert np.isinf(found.finish_s).all()
    assert found.meets(1e12) == 0.0


@pytest.mark.parametrize(
    ("job", "market", "says"),
    [
        ({"work_s": -1.0}, {}, "work is -1; it must be above 0 s"),
        ({"nodes": 0}, {}, "nodes is 0; it must be at least 1"),
        ({"interval_s": math.nan}, {}, "interval is nan"),
        ({"restart_s": -5.0}, {"wait_s": math.inf}, "restart is -5.*wait is inf"),
        ({}, {"reclaim_s": 600.0}, "an interruption every 600 s makes the job 6.*times as long"),
        ({"nodes": 8}, {"capacity": trace((0, 4), (5, 4))}, "never have the nodes"),
    ],
)
def test_values_that_make_no_sense_are_refused(
    job: dict[str, Any], market: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        simulate(replace(JOB, **job), SpotMarket(1.0, **market))
    with pytest.raises(InputError, match="runs is 0"):
        simulate(JOB, SpotMarket(1.0), runs=0)
