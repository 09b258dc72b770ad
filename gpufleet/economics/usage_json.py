"""`gpufleet usage` as JSON and CSV. Amounts are USD; null is unknown."""

from __future__ import annotations

import csv
import io
from typing import Any

from gpufleet.economics.json import CURRENCY
from gpufleet.economics.usage import Allocation, UsageReport, by_team

COLUMNS = (
    "source", "team", "project", "experiment", "gpu_hours", "lost_gpu_hours", "unused_gpu_hours", "cost_usd",
)  # fmt: skip


def usage_to_json(report: UsageReport) -> dict[str, Any]:
    """Return all parts of the report."""
    return {
        "currency": CURRENCY,
        "sources": list(report.sources),
        "teams": [_allocation(each) for each in by_team(report.allocations)],
        "allocations": [_allocation(each) for each in report.allocations],
        "capacity": [
            {
                "source": each.source,
                "gpu_hours": each.gpu_hours,
                "idle_gpu_hours": each.idle,
                "idle_cost": each.idle_cost,
                "gpu_hour": each.price,
                "basis": each.basis,
                "reason": each.reason,
            }
            for each in report.capacities
        ],
        "commitments": [
            {"kind": each.kind, "used": each.used, "unused": each.unused} for each in report.commitments
        ],
        "anomalies": [
            {
                "source": each.source,
                "team": each.team,
                "day": each.day.isoformat(),
                "value": each.value,
                "usual": each.usual,
                "unit": each.unit,
            }
            for each in report.anomalies
        ],
        "advice": [
            {
                "source": each.source,
                "team": each.team,
                "experiment": each.name,
                "jobs": each.jobs,
                "gpu": each.gpu,
                "gpu_hours": each.gpu_hours,
                "utilization": each.utilization,
                "advice": each.text,
            }
            for each in report.advice
        ],
        "notes": list(report.notes),
    }


def usage_to_csv(report: UsageReport) -> str:
    """Return the allocations as CSV with a header; an unknown cost is empty."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(COLUMNS)
    for each in report.allocations:
        hours = [f"{value:.4f}" for value in (each.gpu_hours, each.lost, each.unused)]
        cost = "" if each.cost is None else f"{each.cost:.4f}"
        writer.writerow([each.source, each.team, each.project, each.experiment, *hours, cost])
    return target.getvalue()


def _allocation(each: Allocation) -> dict[str, Any]:
    return {
        "source": each.source,
        "team": each.team,
        "project": each.project,
        "experiment": each.experiment,
        "gpu_hours": each.gpu_hours,
        "lost_gpu_hours": each.lost,
        "unused_gpu_hours": each.unused,
        "cost": each.cost,
    }
