"""Simulated job-hours on spot in a second: ours in numpy, the same model in plain Python, and in simpy."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import simpy
from rich.table import Table

from gpufleet.economics.simulation import Job, SpotMarket, simulate

NODES = 8
MTBF_S = 4 * 3600.0
JOB = Job(work_s=72 * 3600.0, nodes=NODES, checkpoint_s=60.0, interval_s=1200.0, restart_s=300.0)
PRICE = 12.98


@dataclass(frozen=True)
class Speed:
    """One simulation: simulated job-hours per second of each round, and mean hours of a job."""

    what: str
    rates: list[float]
    mean_h: float


def table(rounds: int) -> Table:
    """Ours and both peers in turn; the means of the jobs show that all simulate the same."""
    made = Table(
        "simulation", "job-hours / s", "ours / peer", "mean hours of a job", title="jobs on spot, medians"
    )
    found = measure(rounds)
    ours = statistics.median(found[0].rates)
    for each in found:
        rate = statistics.median(each.rates)
        made.add_row(each.what, f"{rate:,.0f}", f"{ours / rate:,.1f}", f"{each.mean_h:.2f}")
    return made


def measure(rounds: int) -> list[Speed]:
    """Each simulation in turn, round by round."""
    peers: list[tuple[str, Callable[[int], list[float]], int]] = [
        ("gpufleet (numpy)", _ours, 100_000),
        ("plain Python", _plain, 2_000),
        ("simpy", _simpy, 500),
    ]
    speeds = [Speed(what, [], 0.0) for what, _, _ in peers]
    hours: list[list[float]] = [[] for _ in peers]
    for round_ in range(rounds):
        for index, (_, call, runs) in enumerate(peers):
            random.seed(round_)
            started = time.perf_counter()
            finished = call(runs)
            speeds[index].rates.append(sum(finished) / (time.perf_counter() - started))
            hours[index] += finished
    return [
        Speed(each.what, each.rates, statistics.fmean(found))
        for each, found in zip(speeds, hours, strict=True)
    ]


def _ours(runs: int) -> list[float]:
    found = simulate(
        JOB, SpotMarket(PRICE, reclaim_s=MTBF_S * NODES), runs=runs, seed=random.randrange(1 << 30)
    )
    return list((found.finish_s / 3600).tolist())


def _plain(runs: int) -> list[float]:
    segment = JOB.interval_s + JOB.checkpoint_s
    finished = []
    for _ in range(runs):
        now = cost = restart = 0.0
        done = 0
        while True:
            todo = restart + JOB.work_s - done * JOB.interval_s + (JOB.segments - done) * JOB.checkpoint_s
            lost = random.expovariate(1 / MTBF_S)
            span = min(lost, todo)
            now += span
            cost += span / 3600 * PRICE * NODES
            if span >= todo:
                break
            done = min(done + math.floor(max(span - restart, 0.0) / segment), JOB.segments - 1)
            restart = JOB.restart_s
        finished.append(now / 3600)
    return finished


def _simpy(runs: int) -> list[float]:
    finished: list[float] = []

    def job(env: Any) -> Iterator[Any]:
        done, restart = 0, 0.0
        lost = env.timeout(random.expovariate(1 / MTBF_S))
        while done < JOB.segments:
            work = min(JOB.interval_s, JOB.work_s - done * JOB.interval_s)
            segment = env.timeout(restart + work + JOB.checkpoint_s)
            yield segment | lost
            if segment.processed:
                done, restart = done + 1, 0.0
            else:
                restart = JOB.restart_s
                lost = env.timeout(random.expovariate(1 / MTBF_S))
        finished.append(env.now / 3600)

    for _ in range(runs):
        env = simpy.Environment()
        env.process(job(env))
        env.run()
    return finished
