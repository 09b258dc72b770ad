"""Where a job should run: each place with time, cost and their spread, or why it cannot run there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gpufleet.economics.candidates import Candidate
from gpufleet.economics.checkpoints import checkpoint_plan
from gpufleet.economics.job_file import JobFile, ServingJob, TrainingJob
from gpufleet.economics.models import ModelShape, read_model
from gpufleet.economics.serving import ServiceSizing, size_service
from gpufleet.economics.simulation import MOST_RUNS, Fallback, Job, SpotMarket, simulate
from gpufleet.economics.supplies import Spread
from gpufleet.economics.training import (
    CHECKPOINT_BYTES_PER_PARAMETER,
    GPU_HOURS_PER_FAILURE,
    Placement,
    find_parallelism,
    training_flops,
)
from gpufleet.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

RESTART_S = 600.0
STORAGE_BYTES_S = 20e9
RESERVE_BYTES = 4 * 2**30
BLOCK_END_H = 0.5
"""Hours before the end of a Capacity Block at which its instances are terminated (CapacityBlockRules)."""

IN_TIME = 0.9
"""A place is feasible if this share of the runs finishes by the deadline."""


class PlaceAdvice(Struct, frozen=True):
    """One place. Feasible if `reasons` is empty; then `rank` counts from 1.

    `finish_h` is from now, with the start; `cost` USD with its spread; `undisturbed_cost` without
    interruptions; all None if unknown. `sizing` is that of a service, `per_million` USD per million requests.
    """

    candidate: Candidate
    reasons: tuple[str, ...] = ()
    rank: int | None = None
    nodes: int = 0
    placement: Placement | None = None
    finish_h: Spread | None = None
    meets: float | None = None
    cost: Spread | None = None
    undisturbed_cost: float | None = None
    sizing: ServiceSizing | None = None
    hourly: tuple[float, float, float] | None = None
    per_million: float | None = None
    notes: tuple[str, ...] = ()


class Limits(Struct, frozen=True):
    """What the caller adds to the job file: budget left in USD, number of runs, seed, MFU.

    `fleet_left` is what the fleet file's budget leaves in a month, for places that are paid for what they are
    used.
    """

    budget: float | None
    runs: int
    seed: int
    mfu: float
    fleet_left: float | None = None


def advise(job: JobFile, places: Sequence[Candidate], limits: Limits, folder: Path) -> list[PlaceAdvice]:
    """Return all places, the feasible ones ranked by cost and time first. Paths are relative to `folder`."""
    if not 1 <= limits.runs <= MOST_RUNS:
        raise InputError(f"runs is {limits.runs}; it must be from 1 to {MOST_RUNS:,}", remedy="write 2000")
    found = list(_advised(job, places, limits, folder))
    found.sort(key=_order)
    ranks = iter(range(1, len(found) + 1))
    return [replace(each, rank=next(ranks)) if not each.reasons else each for each in found]


def _advised(
    job: JobFile, places: Sequence[Candidate], limits: Limits, folder: Path
) -> Iterator[PlaceAdvice]:
    budgets = [
        each for each in (limits.budget, float(job.budget.amount) if job.budget else None) if each is not None
    ]
    budget = min(budgets, default=None)
    model = None
    if job.training is not None and job.training.config is not None:
        model = read_model(folder / job.training.config)
    for candidate in places:
        reasons = _residency(job, candidate)
        if job.training is not None:
            result = _train(job, job.training, model, candidate, limits)
        elif job.serving is not None:
            result = _serve(job.serving, candidate)
        else:
            raise AssertionError("a job file has one of both")
        over = None if result.cost is None or budget is None else result.cost.mean - budget
        if budget is not None and result.cost is None and not result.reasons and job.training is not None:
            reasons.append("its price is not known: the budget cannot be checked")
        elif over is not None and over > 0 and result.cost is not None:
            reasons.append(f"costs {result.cost.mean:,.0f} USD of {budget:,.0f} USD")
        if (left := limits.fleet_left) is not None and _exceeds(left, job, result):
            reasons.append(f"costs more than the {left:,.0f} USD a month that the fleet's budget leaves")
        yield replace(result, reasons=(*reasons, *result.reasons))


def _exceeds(left: float, job: JobFile, result: PlaceAdvice) -> bool:
    """Return whether a run would cost more than the budget leaves; racks are paid already."""
    paid = job.training is None or result.candidate.kind == "on-premises"
    return not paid and result.cost is not None and result.cost.mean > left


def _residency(job: JobFile, candidate: Candidate) -> list[str]:
    allowed = {*job.data.regions, *job.data.sites}
    if not allowed or candidate.region in allowed or candidate.site in allowed:
        return []
    return [f"data must stay in {', '.join(sorted(allowed))}"]


def _train(
    job: JobFile, training: TrainingJob, model: ModelShape | None, candidate: Candidate, limits: Limits
) -> PlaceAdvice:
    if training.gpu_types and candidate.gpu.casefold() not in {
        each.casefold() for each in training.gpu_types
    }:
        return PlaceAdvice(candidate, (f"has {candidate.gpu}, not {' or '.join(training.gpu_types)}",))
    nodes = math.ceil(training.gpus / candidate.gpus_per_node)
    found = PlaceAdvice(candidate, nodes=nodes)
    if candidate.nodes is not None and nodes > candidate.nodes:
        have = candidate.nodes * candidate.gpus_per_node
        return replace(found, reasons=(f"has at most {have:,} of {training.gpus:,} GPUs",))
    if candidate.kind == "spot" and training.reclaims is None:
        return replace(
            found, reasons=("nothing says how often its nodes are reclaimed: write `reclaims: 48 h`",)
        )
    if model is not None:
        found = _placed(found, training, model)
        if found.reasons:
            return found
    work_s = _work(training, model, candidate, limits)
    if work_s is None:
        return replace(found, reasons=(f"the peak throughput of {candidate.gpu} is not known",))
    return _simulated(job, training, model, found, work_s, limits)


def _placed(found: PlaceAdvice, training: TrainingJob, model: ModelShape) -> PlaceAdvice:
    candidate = found.candidate
    if candidate.memory_bytes is None:
        return replace(found, reasons=("its GPU memory is not known",))
    placement = find_parallelism(
        model,
        training.gpus,
        candidate.memory_bytes,
        gpus_per_node=candidate.gpus_per_node,
        sequence_length=training.sequence,
        micro_batch=1,
        recompute=None,
        zero=None,
        tensor=None,
        pipeline=None,
        reserve_bytes=RESERVE_BYTES,
    )
    if placement.fits:
        return replace(found, placement=placement)
    need, have = placement.memory.total / 2**30, candidate.memory_bytes / 2**30
    return replace(found, placement=placement, reasons=(f"needs {need:,.1f} of {have:,.0f} GiB on each GPU",))


def _work(
    training: TrainingJob, model: ModelShape | None, candidate: Candidate, limits: Limits
) -> float | None:
    """Return the seconds of the job without interruptions and checkpoints, None if they are unknown."""
    if training.work is not None:
        return training.work.delta.total_seconds()
    if model is None or training.tokens is None or candidate.peak_flops is None:
        return None
    flops = training_flops(model, training.tokens.value, training.sequence)
    return flops / (training.gpus * candidate.peak_flops * limits.mfu)


def _simulated(
    job: JobFile,
    training: TrainingJob,
    model: ModelShape | None,
    found: PlaceAdvice,
    work_s: float,
    limits: Limits,
) -> PlaceAdvice:
    candidate, nodes = found.candidate, found.nodes
    checkpoint_s = _seconds(training.checkpoint)
    if checkpoint_s is None:
        size = CHECKPOINT_BYTES_PER_PARAMETER * (model.parameters if model is not None else 0)
        checkpoint_s = size / STORAGE_BYTES_S
    restart_s = _seconds(training.restart) or RESTART_S
    failure_s = GPU_HOURS_PER_FAILURE / candidate.gpus_per_node * 3600
    reclaim_s = _seconds(training.reclaims) if candidate.kind == "spot" else None
    lost = sum(nodes / each for each in (failure_s, reclaim_s) if each)
    price = training.prices.get(candidate.kind)
    hourly = candidate.node_hour if price is None else float(price.amount) * candidate.gpus_per_node
    start_s = (candidate.start_h or 0.0) * 3600
    deadline_s = _seconds(job.deadline)
    left_s = None if deadline_s is None else deadline_s - start_s
    fallback = None
    if candidate.fallback_hour is not None and left_s is not None and left_s > 0:
        fallback = Fallback(candidate.fallback_hour, left_s)
    try:
        plan = checkpoint_plan(checkpoint_s, 1 / lost, restart_s=restart_s)
        runs = simulate(
            Job(work_s, nodes, checkpoint_s, min(plan.interval_s, work_s), restart_s),
            SpotMarket(
                hourly, failure_s=failure_s, reclaim_s=reclaim_s, wait_s=_seconds(training.wait) or 0.0
            ),
            runs=limits.runs,
            seed=limits.seed,
            fallback=fallback,
        )
    except InputError as error:
        return replace(found, reasons=(error.message,))
    finish = Spread.of((runs.finish_s + start_s) / 3600)
    cost = None if runs.cost is None else Spread.of(runs.cost)
    reasons = []
    if candidate.block_days:
        days = next((each for each in candidate.block_days if each * 24 >= finish.high + BLOCK_END_H), None)
        if days is None:
            reasons.append(f"a block lasts at most {candidate.block_days[-1]} days")
        elif hourly is not None:
            whole = hourly * nodes * 24 * days
            cost = Spread(whole, whole, whole, whole)
    meets = None if left_s is None else runs.meets(left_s)
    if meets is not None and meets < IN_TIME and job.deadline is not None:
        reasons.append(f"{meets:.0%} of the runs finish within {job.deadline}; {IN_TIME:.0%} must")
    if candidate.lasts_h is not None and finish.high - start_s / 3600 > candidate.lasts_h - BLOCK_END_H:
        reasons.append(f"the block lasts {candidate.lasts_h:g} h, the job up to {finish.high:,.1f} h")
    gpu_hours = nodes * candidate.gpus_per_node * work_s / 3600
    undisturbed = None if hourly is None else gpu_hours * hourly / candidate.gpus_per_node
    if price is not None:
        found = replace(
            found, candidate=replace(candidate, node_hour=hourly, source="job file", date=None, reason="")
        )
    return replace(
        found,
        reasons=tuple(reasons),
        finish_h=finish,
        meets=meets,
        cost=cost,
        undisturbed_cost=undisturbed,
    )


def _serve(serving: ServingJob, candidate: Candidate) -> PlaceAdvice:
    found = PlaceAdvice(candidate)
    unmeasured = [model.name for model in serving.models if candidate.gpu not in model.measured]
    if unmeasured:
        return replace(found, reasons=(f"{', '.join(unmeasured)} not measured on {candidate.gpu}",))
    for model in serving.models:
        if candidate.memory_bytes is None or float(model.gpu_memory.bytes) > candidate.memory_bytes:
            have = (
                "unknown" if candidate.memory_bytes is None else f"{candidate.memory_bytes / 2**30:,.0f} GiB"
            )
            return replace(found, reasons=(f"{model.name} needs {model.gpu_memory} on a GPU; it has {have}",))
        if model.gpus > candidate.gpus_per_node:
            return replace(found, reasons=(f"a replica of {model.name} has {model.gpus} GPUs in one node",))
    if candidate.kind == "capacity-block":
        return replace(found, reasons=("a Capacity Block ends: it is for jobs, not for services",))
    sizing = size_service(serving, candidate.gpu)
    if sizing.low is None or sizing.usual is None or sizing.peak is None:
        return replace(found, sizing=sizing, reasons=(sizing.reason,))
    low, usual, peak = (
        math.ceil(each.gpus / candidate.gpus_per_node) for each in (sizing.low, sizing.usual, sizing.peak)
    )
    reasons = []
    if candidate.nodes is not None and peak > candidate.nodes:
        reasons.append(f"the peak needs {peak:,} nodes; it has at most {candidate.nodes:,}")
    if candidate.power_limit_w is not None:
        drawn = None if candidate.power_w is None else peak * candidate.power_w
        if drawn is None:
            reasons.append("the power of its nodes is not known, and its power is limited")
        elif drawn > candidate.power_limit_w:
            reasons.append(f"the peak draws {drawn:,.0f} of {candidate.power_limit_w:,.0f} W")
    hourly = per_million = None
    if candidate.node_hour is not None:
        hourly = (low * candidate.node_hour, usual * candidate.node_hour, peak * candidate.node_hour)
        per_million = hourly[1] / (serving.load.usual * 3600) * 1e6
    notes = ("spot nodes are reclaimed: keep cells on another option",) if candidate.kind == "spot" else ()
    return replace(
        found,
        reasons=tuple(reasons),
        nodes=peak,
        sizing=sizing,
        hourly=hourly,
        per_million=per_million,
        notes=notes,
    )


def _order(each: PlaceAdvice) -> tuple[bool, bool, float, float, str]:
    cost = each.cost.mean if each.cost is not None else each.per_million
    finish = each.finish_h.median if each.finish_h is not None else math.inf
    return bool(each.reasons), cost is None, cost or 0.0, finish, each.candidate.place


def _seconds(duration: object) -> float | None:
    delta = getattr(duration, "delta", None)
    return None if delta is None else float(delta.total_seconds())
