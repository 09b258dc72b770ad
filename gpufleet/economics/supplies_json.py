"""`gpufleet spot simulate` as JSON: hours, USD, USD per node-hour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gpufleet.economics.json import CURRENCY
from gpufleet.economics.supplies import Question, Spread, SupplyOutcome


def supplies_to_json(question: Question, outcomes: Sequence[SupplyOutcome]) -> dict[str, Any]:
    """Return the job, what was simulated, and one object for each supply."""
    job = question.job
    return {
        "currency": CURRENCY,
        "work_h": job.work_s / 3600,
        "nodes": job.nodes,
        "checkpoint_s": job.checkpoint_s,
        "interval_s": job.interval_s,
        "restart_s": job.restart_s,
        "deadline_h": None if question.deadline_s is None else question.deadline_s / 3600,
        "runs": question.runs,
        "seed": question.seed,
        "supplies": [_outcome(each) for each in outcomes],
    }


def spread_to_json(spread: Spread | None) -> dict[str, float | None] | None:
    """Return the spread; a quantile of runs that did not finish is null."""
    if spread is None:
        return None
    values = {"p5": spread.low, "p50": spread.median, "p95": spread.high, "mean": spread.mean}
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _outcome(found: SupplyOutcome) -> dict[str, Any]:
    return {
        "supply": found.supply,
        "feasible": found.finish_h is not None,
        "node_hour": found.price,
        "source": found.source,
        "date": found.date,
        "finish_h": spread_to_json(found.finish_h),
        "cost": spread_to_json(found.cost),
        "meets_deadline_fraction": found.meets,
        "saving_fraction": found.saving,
        "interruptions": found.interruptions,
        "unfinished_fraction": found.unfinished,
        "fallback_fraction": found.fallback,
        "reason": found.reason,
        "note": found.note,
    }
