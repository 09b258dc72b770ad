"""Who used which GPU-hours, what they cost, what was wasted, and what is unusual. Amounts are USD."""

from __future__ import annotations

import datetime as dt
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

SUCCESSFUL = frozenset({"COMPLETED", "RUNNING", "SUSPENDED", "PENDING", "REQUEUED", "RESIZING"})
"""States of Slurm whose GPU-hours are not lost."""

WINDOW_DAYS = 14
SHARE_OF_MEDIAN = 0.25
DEVIATIONS = 4.0
SMALLEST = {"USD": 100.0, "GPU-hours": 24.0}
_MAD_TO_SIGMA = 1.4826


class JobUse(Struct, frozen=True):
    """One job or pod. `utilization` is the share of its GPUs' time in use, None if it was not measured.

    `gpu_memory_gib` is the most memory that it used on one GPU, None if unknown. `start` has no zone in
    files of Slurm.
    """

    id: str
    name: str
    team: str
    project: str
    experiment: str
    site: str
    gpu: str
    gpus: int
    hours: float
    lost: bool
    start: dt.datetime | None
    utilization: float | None = None
    gpu_memory_gib: float | None = None

    @property
    def gpu_hours(self) -> float:
        """GPUs times hours."""
        return self.gpus * self.hours

    @property
    def end(self) -> dt.datetime | None:
        """Start and hours."""
        return None if self.start is None else self.start + dt.timedelta(hours=self.hours)


class Allocation(Struct, frozen=True):
    """GPU-hours and cost of one team, project and experiment at one source ("" is not named).

    `lost` are GPU-hours of jobs that did not succeed, `unused` those in which allocated GPUs did nothing (of
    jobs whose utilization was measured). `cost` is None if a price is unknown.
    """

    source: str
    team: str
    project: str
    experiment: str
    gpu_hours: float
    lost: float = 0.0
    unused: float = 0.0
    cost: float | None = None


class SiteCapacity(Struct, frozen=True):
    """The GPU-hours of a source. `idle` is what no job was allocated, with its cost; None is unknown."""

    source: str
    gpu_hours: float | None
    idle: float | None
    idle_cost: float | None
    price: float | None
    basis: str
    reason: str = ""


class Anomaly(Struct, frozen=True):
    """A day on which a team used much more than in the days before."""

    source: str
    team: str
    day: dt.date
    value: float
    usual: float
    unit: str


class Advice(Struct, frozen=True):
    """A job whose GPUs are too large, and what is large enough. `gpu_hours` are those of all such jobs."""

    source: str
    team: str
    name: str
    jobs: int
    gpu: str
    gpu_hours: float
    utilization: float
    text: str


class Commitment(Struct, frozen=True):
    """A kind of commitment (Reserved Instances, Savings Plans): used and unused USD."""

    kind: str
    used: float
    unused: float


class UsageReport(Struct, frozen=True):
    """Everything that `gpufleet usage` shows. `sources` has the files with their rows and days."""

    sources: tuple[str, ...]
    allocations: tuple[Allocation, ...] = ()
    capacities: tuple[SiteCapacity, ...] = ()
    commitments: tuple[Commitment, ...] = ()
    anomalies: tuple[Anomaly, ...] = ()
    advice: tuple[Advice, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def merged(self, other: UsageReport) -> UsageReport:
        """Return both reports as one."""
        return UsageReport(
            self.sources + other.sources,
            self.allocations + other.allocations,
            self.capacities + other.capacities,
            self.commitments + other.commitments,
            self.anomalies + other.anomalies,
            self.advice + other.advice,
            self.notes + other.notes,
        )


def allocate(jobs: Iterable[JobUse], source: str, price: float | None) -> tuple[Allocation, ...]:
    """Return the allocations of jobs at `price` USD per GPU-hour, the most GPU-hours first."""
    found: dict[tuple[str, str, str], Allocation] = {}
    for job in jobs:
        key = (job.team, job.project, job.experiment)
        before = found.get(key, Allocation(source, *key, 0.0))
        idle = 0.0 if job.utilization is None else job.gpu_hours * (1 - job.utilization)
        found[key] = replace(
            before,
            gpu_hours=before.gpu_hours + job.gpu_hours,
            lost=before.lost + (job.gpu_hours if job.lost else 0.0),
            unused=before.unused + (0.0 if job.lost else idle),
        )
    priced = (
        replace(each, cost=None if price is None else each.gpu_hours * price) for each in found.values()
    )
    return tuple(sorted(priced, key=lambda each: (-each.gpu_hours, each.team, each.project, each.experiment)))


def by_team(allocations: Iterable[Allocation]) -> tuple[Allocation, ...]:
    """Return one allocation for each source and team. A sum with an unknown cost is unknown."""
    found: dict[tuple[str, str], Allocation] = {}
    for each in allocations:
        key = (each.source, each.team)
        before = found.get(key)
        if before is None:
            found[key] = replace(each, project="", experiment="")
            continue
        cost = None if before.cost is None or each.cost is None else before.cost + each.cost
        found[key] = replace(
            before,
            gpu_hours=before.gpu_hours + each.gpu_hours,
            lost=before.lost + each.lost,
            unused=before.unused + each.unused,
            cost=cost,
        )
    return tuple(sorted(found.values(), key=lambda each: (-(each.cost or 0.0), -each.gpu_hours, each.team)))


def find_anomalies(
    values: Iterable[tuple[str, dt.date, float]], source: str, unit: str
) -> tuple[Anomaly, ...]:
    """Return the unusual days of (team, day, value), the largest first.

    A day is compared with the 14 days before it; a day without a value counts as 0. It is unusual if it is
    above the median by 4 standard deviations (from the median deviation), by 25 % of the median, and by
    100 USD or 24 GPU-hours.
    """
    series: dict[str, dict[dt.date, float]] = defaultdict(lambda: defaultdict(float))
    for team, day, value in values:
        series[team][day] += value
    found = []
    for team, days in series.items():
        first = min(days)
        for day, value in days.items():
            known = [
                days.get(before, 0.0)
                for before in (day - dt.timedelta(days=back) for back in range(1, WINDOW_DAYS + 1))
                if before >= first
            ]
            if len(known) < WINDOW_DAYS:
                continue
            usual = statistics.median(known)
            spread = statistics.median(abs(each - usual) for each in known) * _MAD_TO_SIGMA
            limit = max(DEVIATIONS * spread, SHARE_OF_MEDIAN * usual, SMALLEST[unit])
            if value - usual > limit:
                found.append(Anomaly(source, team, day, value, usual, unit))
    return tuple(sorted(found, key=lambda each: (-(each.value - each.usual), each.day, each.team)))


def daily(jobs: Sequence[JobUse]) -> Iterable[tuple[str, dt.date, float]]:
    """Yield team, day of the start, and GPU-hours."""
    return ((job.team, job.start.date(), job.gpu_hours) for job in jobs if job.start is not None)
