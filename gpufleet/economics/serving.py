"""How many GPUs a service needs for a load at a latency goal, by the queue in front of its replicas.

Requests arrive independently, service times are exponential (M/M/c): A. K. Erlang, "Solution of some problems
in the theory of probabilities of significance in automatic telephone exchanges" (1917), formula C.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from gpufleet.economics.job_file import ServingJob

SHARE = 0.95
"""The share of the requests that the latency goal is for."""

MOST_CELLS = 100_000


class CellSize(Struct, frozen=True):
    """A number of cells for a load. `latency_s` is that of 95 % of the requests, of all models in turn."""

    load: float
    cells: int
    gpus: int
    utilization: float
    latency_s: float
    bound_by: str


class ServiceSizing(Struct, frozen=True):
    """Cells at the least, usual and highest load on one GPU. `reason` is set if the goal cannot be met.

    `until_warm` is the load up to which the usual cells meet the goal while a new one warms up.
    """

    gpus_per_cell: int
    low: CellSize | None
    usual: CellSize | None
    peak: CellSize | None
    until_warm: float
    reason: str = ""


def waiting_probability(servers: int, offered: float) -> float:
    """Return the probability that a request waits: Erlang's C for `offered` = rate / rate of one server."""
    if offered >= servers:
        return 1.0
    blocked = 1.0
    for number in range(1, servers + 1):
        blocked = offered * blocked / (number + offered * blocked)
    return blocked / (1 - offered / servers * (1 - blocked))


def waiting_time(servers: int, rate: float, served: float, share: float = SHARE) -> float:
    """Return the seconds that `share` of the requests wait at most; infinite for more load than capacity."""
    if rate >= servers * served:
        return math.inf
    waits = waiting_probability(servers, rate / served)
    if waits <= 1 - share:
        return 0.0
    return math.log(waits / (1 - share)) / (servers * served - rate)


def size_service(job: ServingJob, gpu: str) -> ServiceSizing:
    """Return the cells that `job` needs on a GPU that all its models were measured on."""
    goal, most = job.latency.delta.total_seconds(), float(job.utilization.value) / 100
    per_cell = sum(model.replicas * model.gpus for model in job.models)
    measured = {model.name: model.measured[gpu] for model in job.models}
    alone = sum(each.latency.delta.total_seconds() for each in measured.values())
    if alone > goal:
        reason = f"a request takes {alone:g} s without a queue; the goal is {goal:g} s"
        return ServiceSizing(per_cell, None, None, None, 0.0, reason)
    served = {name: each.requests_per_s for name, each in measured.items()}
    low, usual, peak = (
        _cells(job, served, alone, goal, most, load, per_cell)
        for load in (job.load.low, job.load.usual, job.load.peak)
    )
    return ServiceSizing(per_cell, low, usual, peak, _until(job, served, alone, goal, usual.cells))


def _cells(
    job: ServingJob,
    served: Mapping[str, float],
    alone: float,
    goal: float,
    most: float,
    load: float,
    per_cell: int,
) -> CellSize:
    """Return the fewest cells below the utilization and the latency goal."""
    busy = max(load / (served[model.name] * model.replicas) for model in job.models)
    first = max(1, math.ceil(busy / most - 1e-9))
    for cells in range(first, MOST_CELLS):
        latency = alone + _waiting(job, served, load, cells)
        if latency <= goal:
            bound = "utilization" if cells == first else "latency"
            return CellSize(load, cells, cells * per_cell, busy / cells, latency, bound)
    raise AssertionError("waiting falls to 0 with more cells")


def _waiting(job: ServingJob, served: Mapping[str, float], load: float, cells: int) -> float:
    return sum(waiting_time(cells * model.replicas, load, served[model.name]) for model in job.models)


def _until(job: ServingJob, served: Mapping[str, float], alone: float, goal: float, cells: int) -> float:
    """Return the highest load at which `cells` meet the goal."""
    low, high = 0.0, min(served[model.name] * model.replicas * cells for model in job.models)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if alone + _waiting(job, served, middle, cells) <= goal else (low, middle)
    return low
