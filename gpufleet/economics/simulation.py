"""Simulation of a job that is interrupted: spot reclaims, failures, waiting, restarts, a deadline.

All runs advance together in numpy: one step is one attempt of each unfinished run, from its start to its
next interruption. Times are seconds, prices USD per node-hour.

The model is that of Daly's formula (`checkpoints.slowdown`): after each interruption the job restarts from
its last checkpoint; interruptions during checkpoints and restarts count. The first start takes no time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from gpufleet.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpufleet.economics.traces import StepTrace

    Floats = NDArray[np.float64]

HORIZON = 20.0
"""A run is stopped, and counted as unfinished, after this many times its time without interruptions, plus
as many mean waits for capacity."""

MOST_RUNS = 10_000_000


class Job(Struct, frozen=True):
    """`work_s` of computing on `nodes` nodes at the same time, with a checkpoint after each `interval_s`."""

    work_s: float
    nodes: int
    checkpoint_s: float
    interval_s: float
    restart_s: float = 0.0

    @property
    def undisturbed_s(self) -> float:
        """The time without interruptions: work and checkpoints, one of them at the end."""
        return self.work_s + self.checkpoint_s * self.segments

    @property
    def segments(self) -> int:
        """The number of checkpoints."""
        # The quotient of a multiple of the interval may be a little above a whole number.
        return max(1, math.ceil(self.work_s / self.interval_s - 1e-9))


class SpotMarket(Struct, frozen=True):
    """How nodes are paid and lost.

    `price` is USD per node-hour, or a trace; None is unknown. `failure_s` and `reclaim_s` are mean times
    until one node fails or is reclaimed (exponential; None: never). After a reclaim the job waits `wait_s` on
    average (exponential) for capacity. With `capacity` (a trace of nodes that can be had) the job runs only
    while all of its nodes can be had; with `max_price` only while the trace of prices is not above it.
    Without `held`, nodes that were not reclaimed are released while the job waits. A run starts at a random
    time of the traces, which repeat.
    """

    price: float | StepTrace | None
    failure_s: float | None = None
    reclaim_s: float | None = None
    wait_s: float = 0.0
    capacity: StepTrace | None = None
    max_price: float | None = None
    held: bool = True


class Fallback(Struct, frozen=True):
    """On-demand nodes at `price` USD per node-hour that finish the job before `deadline_s`.

    The job changes to them as soon as one more reclaim could make it miss the deadline.
    """

    price: float | None
    deadline_s: float


class Simulation(Struct, frozen=True):
    """One value for each run. `finish_s` is infinite for a run that did not finish (`HORIZON`).

    `cost` is USD, None if a price is unknown. `fallback` is whether the run changed to on-demand.
    """

    finish_s: Floats
    cost: Floats | None
    interruptions: NDArray[np.int64]
    fallback: NDArray[np.bool_]

    def meets(self, deadline_s: float) -> float:
        """Return the share of the runs that finish by the deadline."""
        return float(np.mean(self.finish_s <= deadline_s * (1 + 1e-9)))

    @property
    def unfinished(self) -> float:
        """The share of the runs that did not finish."""
        return float(np.mean(~np.isfinite(self.finish_s)))


def simulate(
    job: Job, market: SpotMarket, *, runs: int = 10_000, seed: int = 0, fallback: Fallback | None = None
) -> Simulation:
    """Return the runs of a job. The same seed gives the same runs.

    Example: `simulate(Job(72 * 3600, 8, 60, 1156), SpotMarket(12.98, reclaim_s=8 * 8 * 3600))`.

    Raises InputError for values that make no sense, and for a job that interruptions let not finish.
    """
    _check(job, market, runs)
    random = np.random.default_rng(seed)
    prices = _Prices(market.price)
    outages = _Outages.of(job, market)
    segment = job.interval_s + job.checkpoint_s
    horizon = HORIZON * (job.undisturbed_s + job.restart_s + market.wait_s) + outages.length_s
    finish = np.full(runs, math.inf)
    costs, interruptions = np.zeros(runs), np.zeros(runs, np.int64)
    changed = np.zeros(runs, np.bool_)

    # The state of unfinished runs; `run` has their places in the results.
    run = np.arange(runs)
    offset = random.uniform(0.0, max(prices.length_s, outages.length_s), runs)
    now, wait, done, restart = (np.zeros(runs) for _ in range(4))
    while run.size:
        on_demand = changed[run]
        todo = restart + job.work_s - done * job.interval_s + (job.segments - done) * job.checkpoint_s
        start = np.where(on_demand, now, outages.next_up(now + wait + offset) - offset)
        if fallback is not None:
            # A reclaim costs at most the work since the last checkpoint and one more restart.
            latest = fallback.deadline_s - todo - segment - job.restart_s
            late = ~on_demand & (start > latest)
            start = np.where(late, np.maximum(now, np.minimum(start, latest)), start)
            on_demand = on_demand | late
            changed[run] = on_demand
        failure = _exponential(random, market.failure_s, job.nodes, run.size)
        reclaim = np.minimum(
            _exponential(random, market.reclaim_s, job.nodes, run.size),
            outages.next_down(start + offset) - offset - start,
        )
        reclaim[on_demand] = math.inf
        span = np.minimum(np.minimum(failure, reclaim), todo)
        costs[run] += _paid(job, market, prices, fallback, on_demand, now, start, span, offset)
        now = start + span
        over = span >= todo
        finish[run[over]] = now[over]
        kept = ~over & (now < horizon)
        interruptions[run[~over]] += 1
        segments = np.floor(np.maximum(span - restart, 0.0) / segment)
        done = np.minimum(done + segments, job.segments - 1)
        reclaimed = reclaim < failure
        wait = np.where(reclaimed, random.exponential(market.wait_s or 0.0, run.size), 0.0)
        restart = np.full(run.size, job.restart_s)
        run, offset, now = run[kept], offset[kept], now[kept]
        wait, done, restart = wait[kept], done[kept], restart[kept]
    unknown = market.price is None or (fallback is not None and fallback.price is None and changed.any())
    return Simulation(finish, None if unknown else costs, interruptions, changed)


def _paid(
    job: Job,
    market: SpotMarket,
    prices: _Prices,
    fallback: Fallback | None,
    on_demand: NDArray[np.bool_],
    now: Floats,
    start: Floats,
    span: Floats,
    offset: Floats,
) -> Floats:
    """Return USD of one attempt: all nodes while it runs, those that were not reclaimed while it waits."""
    paid = job.nodes * prices.paid(start + offset, start + span + offset)
    if fallback is not None:
        fixed = span / 3600 * (fallback.price or 0.0) * job.nodes
        paid = np.where(on_demand, fixed, paid)
    others = job.nodes - 1 if market.held and market.capacity is None and market.max_price is None else 0
    if others:
        paid += others * np.where(start > now, prices.paid(now + offset, start + offset), 0.0)
    return np.asarray(paid, np.float64)


def _exponential(random: np.random.Generator, mean_s: float | None, nodes: int, size: int) -> Floats:
    """Return the times until the first of `nodes` nodes is lost."""
    if mean_s is None:
        return np.full(size, math.inf)
    return random.exponential(mean_s / nodes, size)


class _Prices:
    """What a node costs between two times: a constant, or a trace that repeats."""

    def __init__(self, price: float | StepTrace | None) -> None:
        self._constant = price if isinstance(price, int | float) else 0.0
        self.length_s = 0.0
        if price is not None and not isinstance(price, int | float):
            self._times = np.asarray(price.times_s)
            spans = np.diff(self._times) / 3600
            self._sums = np.concatenate(([0.0], np.cumsum(spans * np.asarray(price.values))))
            self.length_s = price.length_s

    def paid(self, start: Floats, end: Floats) -> Floats:
        """Return USD of one node."""
        if not self.length_s:
            return (end - start) * (self._constant / 3600)
        return self._until(end) - self._until(start)

    def _until(self, times: Floats) -> Floats:
        rounds, rest = np.divmod(times, self.length_s)
        return np.asarray(rounds * self._sums[-1] + np.interp(rest, self._times, self._sums))


class _Outages(Struct, frozen=True):
    """Times of a trace, which repeats, in which the job cannot run: sorted, apart from each other."""

    starts: Floats
    ends: Floats
    length_s: float

    @classmethod
    def of(cls, job: Job, market: SpotMarket) -> _Outages:
        times: Any = np.zeros(0)
        length, missing = 0.0, np.zeros(0, np.bool_)
        if market.capacity is not None:
            times, length = np.asarray(market.capacity.times_s), market.capacity.length_s
            missing = np.asarray(market.capacity.values) < job.nodes
        if market.max_price is not None and not isinstance(market.price, int | float | None):
            own = np.asarray(market.price.times_s)
            above = np.asarray(market.price.values) > market.max_price
            merged = np.union1d(times, own)
            known = _at(own, above, merged[:-1])
            missing = known | (_at(times, missing, merged[:-1]) if times.size else False)
            times, length = merged, market.price.length_s
        if missing.size and missing.all():
            raise InputError(
                "the traces never have the nodes at the accepted price: the job cannot start",
                remedy="use fewer nodes or a higher --max-price",
            )
        edges = np.diff(np.concatenate(([False], missing, [False])).astype(np.int8))
        return cls(times[np.flatnonzero(edges == 1)], times[np.flatnonzero(edges == -1)], length)

    def next_up(self, at: Floats) -> Floats:
        """Return the first time, not before `at`, at which the job can run."""
        if not self.starts.size:
            return at
        for _ in range(2):  # An outage at the end of the trace may continue at its beginning.
            rounds, rest = np.divmod(at, self.length_s)
            place = np.searchsorted(self.starts, rest, "right") - 1
            end = np.where(place >= 0, self.ends[place], -math.inf)
            at = np.where(rest < end, rounds * self.length_s + end, at)
        return at

    def next_down(self, at: Floats) -> Floats:
        """Return the first time after `at` at which the job cannot run."""
        if not self.starts.size:
            return np.full(at.size, math.inf)
        rounds, rest = np.divmod(at, self.length_s)
        # A time that was computed as the end of the trace is the beginning of the next round.
        place = np.searchsorted(self.starts, rest, "right")
        past = place == self.starts.size
        start = np.where(past, self.starts[0] + self.length_s, self.starts[np.where(past, 0, place)])
        return np.asarray(rounds * self.length_s + start)


def _at(times: Any, values: Any, wanted: Any) -> Any:
    return values[np.searchsorted(times, wanted, "right") - 1]


def _check(job: Job, market: SpotMarket, runs: int) -> None:
    wrong = [
        f"{name} is {value:g}; it must be {rule}"
        for name, value, rule, good in (
            ("work", job.work_s, "above 0 s", job.work_s > 0),
            ("nodes", job.nodes, "at least 1", job.nodes >= 1),
            ("checkpoint", job.checkpoint_s, "at least 0 s", job.checkpoint_s >= 0),
            ("interval", job.interval_s, "above 0 s", job.interval_s > 0),
            ("restart", job.restart_s, "at least 0 s", job.restart_s >= 0),
            ("wait", market.wait_s, "at least 0 s", market.wait_s >= 0),
            ("runs", runs, f"from 1 to {MOST_RUNS}", 1 <= runs <= MOST_RUNS),
        )
        if not (math.isfinite(value) and good)
    ]
    rates = [job.nodes / each for each in (market.failure_s, market.reclaim_s) if each]
    if not wrong and rates:
        from gpufleet.economics.checkpoints import slowdown

        slow = slowdown(job.interval_s, job.checkpoint_s, 1 / sum(rates), job.restart_s)
        if slow > HORIZON / 2:
            wrong.append(
                f"an interruption every {1 / sum(rates):,.0f} s makes the job {slow:,.1f} times as long,"
                f" more than {HORIZON / 2:g} times"
            )
    if wrong:
        raise InputError("; ".join(wrong), remedy="use fewer nodes, shorter intervals, or correct the values")
