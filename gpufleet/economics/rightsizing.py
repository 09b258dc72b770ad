"""Advice for jobs that use a small part of their GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct

from gpufleet.catalog import Catalog
from gpufleet.catalog.gpu_speeds import gpu_speeds
from gpufleet.catalog.mig import COMPUTE_SLICES, mig_of
from gpufleet.economics.usage import Advice, JobUse

MOST_UTILIZATION = 0.30
LEAST_GPU_HOURS = 1.0
SMALL_GPUS = ("T4", "L4", "A10G", "L40S")
"""GPUs that are sold one by one."""

HEADROOM = 1.25
"""What is advised has this many times the compute and memory that was used."""


class _Seen(Struct, frozen=True):
    gpu_hours: float
    utilization: float
    memory_gib: float | None
    jobs: int
    gpus: int


def advise(jobs: Iterable[JobUse], catalog: Catalog, region: str | None) -> tuple[Advice, ...]:
    """Return advice by team and name of job, the most GPU-hours first.

    Only jobs with a measured utilization below 30 % and at least one GPU-hour. `region` has the prices of
    smaller GPUs. Utilization is the share of time in which a GPU does anything: it bounds the compute that is
    needed from above.
    """
    groups: dict[tuple[str, str, str, str], list[JobUse]] = defaultdict(list)
    for job in jobs:
        if job.utilization is not None:
            groups[job.site, job.team, job.experiment, job.gpu].append(job)
    found = []
    for (site, team, name, gpu), members in groups.items():
        hours = sum(job.gpu_hours for job in members)
        if hours < LEAST_GPU_HOURS:
            continue
        used = sum((job.utilization or 0.0) * job.gpu_hours for job in members) / hours
        if used > MOST_UTILIZATION:
            continue
        memory = [job.gpu_memory_gib for job in members]
        known = [each for each in memory if each is not None]
        seen = _Seen(
            hours,
            used,
            max(known) if len(known) == len(memory) else None,
            len(members),
            max(job.gpus for job in members),
        )
        text = _text(seen, gpu, catalog, region)
        found.append(Advice(site, team, name, seen.jobs, gpu, hours, used, text))
    return tuple(sorted(found, key=lambda each: (-each.gpu_hours * (1 - each.utilization), each.name)))


def _text(seen: _Seen, gpu: str, catalog: Catalog, region: str | None) -> str:
    if seen.gpus > 1:
        fewer = max(1, -int(-seen.gpus * seen.utilization * HEADROOM // 1))
        return f"use {fewer} instead of {seen.gpus} GPUs, or find out what the GPUs wait for"
    parts = [_mig(seen, gpu), _smaller(seen, gpu, catalog, region)]
    options = [part for part in parts if part]
    if not options:
        return "share the GPU: its memory was not measured, so no smaller one is named"
    return " or ".join(options)


def _mig(seen: _Seen, gpu: str) -> str:
    """Return the smallest MIG profile with the compute and memory that was used."""
    if seen.memory_gib is None:
        return ""
    for entry in sorted(mig_of(gpu), key=lambda each: each.memory_gb):
        fitting = [
            profile
            for profile in entry.profiles
            if profile.compute_slices / COMPUTE_SLICES >= seen.utilization * HEADROOM
            and profile.memory_gib >= seen.memory_gib * HEADROOM
            and "+" not in profile.name
        ]
        if fitting:
            least = min(fitting, key=lambda each: (each.compute_slices, each.memory_gib))
            return f"the MIG slice {least.name} of the {entry.gpu} ({entry.memory_gb} GB)"
    return ""


def _smaller(seen: _Seen, gpu: str, catalog: Catalog, region: str | None) -> str:
    """Return the least expensive instance type with one smaller GPU that has the memory."""
    if seen.memory_gib is None or region is None:
        return ""
    options = []
    for item in catalog.instances.values():
        price = item.on_demand.get(region)
        fits = item.gpu_memory_gib is not None and item.gpu_memory_gib >= seen.memory_gib * HEADROOM
        if item.gpu_count != 1 or item.gpu not in SMALL_GPUS or item.gpu == gpu or not fits:
            continue
        if _too_slow(seen, gpu, item.gpu):
            continue
        if price is not None and price.amount is not None and price.verified:
            options.append((price.amount, item.name, item.gpu))
    if not options:
        return ""
    amount, name, other = min(options)
    unknown = "" if _known_speeds(gpu, other) else "; its compute is not known: try it first"
    return f"one {other} ({name}, {amount:.2f} USD/h in {region}{unknown})"


def _too_slow(seen: _Seen, gpu: str, other: str) -> bool:
    """Return whether a GPU is known to have less compute than the job needs at most."""
    if not _known_speeds(gpu, other):
        return False
    speeds = gpu_speeds()
    return speeds[other].tflops < speeds[gpu].tflops * seen.utilization * HEADROOM


def _known_speeds(gpu: str, other: str) -> bool:
    return gpu in gpu_speeds() and other in gpu_speeds()
