"""Sizes of services by Erlang's formula."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.economics.job_file import ServingJob
from gpufleet.economics.serving import size_service, waiting_probability, waiting_time


def service(**changes: Any) -> ServingJob:
    model = {
        "name": "vision",
        "replicas": 2,
        "gpu_memory": "12 GiB",
        "measured": {"L4": {"requests_per_s": 4, "latency": "0.4 s"}},
    }
    language = {
        "name": "language",
        "gpu_memory": "18 GiB",
        "measured": {"L4": {"requests_per_s": 8, "latency": "0.9 s"}},
    }
    values = {
        "load": {"low": 5, "usual": 30, "peak": 90},
        "latency": "2 s",
        "utilization": "65%",
        "warm_up": "5 min",
        "models": [model, language],
    }
    return ServingJob.model_validate(values | changes)


@pytest.mark.parametrize(
    ("servers", "offered", "expected"),
    [(1, 0.5, 0.5), (2, 1.0, 1 / 3), (5, 4.0, 0.5541), (10, 8.0, 0.4092)],
)
def test_waiting_probability_is_that_of_erlangs_tables(servers: int, offered: float, expected: float) -> None:
    assert waiting_probability(servers, offered) == pytest.approx(expected, abs=5e-5)


def test_single_server_waits_as_the_mm1_formula_says() -> None:
    """P(W > t) = rho e^-(mu - lambda) t."""
    assert waiting_time(1, 0.8, 1.0, 0.95) == pytest.approx(math.log(0.8 / 0.05) / 0.2)
    assert waiting_time(1, 0.04, 1.0, 0.95) == 0.0
    assert waiting_time(3, 3.0, 1.0) == math.inf


@settings(max_examples=100)
@given(st.integers(1, 200), st.floats(0.01, 0.99), st.floats(0.1, 50))
def test_more_servers_wait_less(servers: int, utilization: float, served: float) -> None:
    rate = servers * served * utilization
    assert waiting_time(servers + 1, rate, served) <= waiting_time(servers, rate, served) + 1e-12


def test_cells_keep_the_ratio_the_utilization_and_the_goal() -> None:
    """A cell of 2 vision and 1 language replica serves 8 requests per second: 30 need 5.8 at 65 %."""
    found = size_service(service(), "L4")
    assert found.low is not None
    assert found.usual is not None
    assert found.peak is not None
    assert found.gpus_per_cell == 3
    assert (found.low.cells, found.usual.cells, found.peak.cells) == (2, 6, 18)
    for size in (found.low, found.usual, found.peak):
        assert size.utilization <= 0.65
        assert size.latency_s <= 2.0
        assert size.gpus == size.cells * 3
    assert found.usual.load < found.until_warm < 48


def test_tight_goal_needs_more_cells_than_the_utilization() -> None:
    found = size_service(service(latency="1.32 s"), "L4")
    assert found.usual is not None
    assert found.usual.bound_by == "latency"
    assert found.usual.cells > 6


def test_goal_below_the_latency_without_a_queue_cannot_be_met() -> None:
    found = size_service(service(latency="1 s"), "L4")
    assert found.usual is None
    assert found.reason == "a request takes 1.3 s without a queue; the goal is 1 s"
