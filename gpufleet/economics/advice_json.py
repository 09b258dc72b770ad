"""`gpufleet advise` as JSON: hours, USD; null is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpufleet.economics.advice import PlaceAdvice
from gpufleet.economics.job_file import JobFile
from gpufleet.economics.json import CURRENCY
from gpufleet.economics.serving import CellSize, ServiceSizing
from gpufleet.economics.supplies_json import spread_to_json


def advice_to_json(job: JobFile, found: Sequence[PlaceAdvice]) -> dict[str, Any]:
    """Return the places, the feasible ones first and in order of their rank."""
    return {
        "job": job.job,
        "kind": "training" if job.training is not None else "serving",
        "currency": CURRENCY,
        "places": [_place(each) for each in found],
    }


def _place(each: PlaceAdvice) -> dict[str, Any]:
    candidate = each.candidate
    return {
        "rank": each.rank,
        "feasible": not each.reasons,
        "reasons": list(each.reasons),
        "place": candidate.place,
        "site": candidate.site,
        "region": candidate.region,
        "in_fleet": not candidate.added,
        "capacity": candidate.kind,
        "gpu": candidate.gpu,
        "instance_type": candidate.instance_type,
        "nodes": each.nodes or None,
        "node_hour": candidate.node_hour,
        "source": candidate.source,
        "date": candidate.date,
        "start_h": candidate.start_h,
        "finish_h": spread_to_json(each.finish_h),
        "meets_deadline_fraction": each.meets,
        "cost": spread_to_json(each.cost),
        "cost_without_interruptions": each.undisturbed_cost,
        "parallelism": _parallelism(each),
        "service": None if each.sizing is None else _service(each, each.sizing),
        "notes": [part for part in (candidate.note, *each.notes) if part],
        "unknown": [candidate.reason] if candidate.reason else [],
    }


def _parallelism(each: PlaceAdvice) -> dict[str, Any] | None:
    if each.placement is None:
        return None
    division = each.placement.parallelism
    return {
        "data": division.data,
        "tensor": division.tensor,
        "pipeline": division.pipeline,
        "zero": division.zero,
        "recompute": each.placement.recompute,
        "memory_per_gpu_GiB": each.placement.memory.total / 2**30,
    }


def _service(each: PlaceAdvice, sizing: ServiceSizing) -> dict[str, Any]:
    hourly = each.hourly or (None, None, None)
    return {
        "gpus_per_cell": sizing.gpus_per_cell,
        "low": _cells(sizing.low, hourly[0]),
        "usual": _cells(sizing.usual, hourly[1]),
        "peak": _cells(sizing.peak, hourly[2]),
        "requests_per_s_until_warm": sizing.until_warm,
        "per_million_requests": each.per_million,
    }


def _cells(size: CellSize | None, hourly: float | None) -> dict[str, Any] | None:
    if size is None:
        return None
    return {
        "requests_per_s": size.load,
        "cells": size.cells,
        "gpus": size.gpus,
        "utilization": size.utilization,
        "latency_p95_s": size.latency_s,
        "bound_by": size.bound_by,
        "per_hour": hourly,
    }
