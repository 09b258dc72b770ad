"""Results of calculators as JSON: each name has its unit, amounts are USD."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from gpufleet.economics.checkpoints import CheckpointPlan
from gpufleet.economics.collectives import CollectiveTime
from gpufleet.economics.inference import InferenceSizing
from gpufleet.economics.memory import InferenceMemory, TrainingMemory
from gpufleet.economics.models import ModelShape
from gpufleet.economics.places import GpuPlace, HourlyRate
from gpufleet.economics.quantities import GB, GIB
from gpufleet.economics.spot import SpotComparison
from gpufleet.economics.storage import StorageSizing
from gpufleet.economics.tco import OwnershipCost, TcoResult
from gpufleet.economics.training import Placement, TrainingTime

if TYPE_CHECKING:
    from gpufleet.economics.tco_risk import Risk, TornadoBar

CURRENCY = "USD"


class Assumption(Struct, frozen=True):
    """A value that the user did not give: its name, the value with its unit, and the source."""

    name: str
    value: str
    source: str


def assumptions_to_json(assumptions: Iterable[Assumption]) -> list[dict[str, str]]:
    """Return the list `assumptions` that every result has."""
    return [{"name": item.name, "value": item.value, "source": item.source} for item in assumptions]


def checkpoints_to_json(plan: CheckpointPlan) -> dict[str, Any]:
    """Return the JSON of `gpufleet spot interval`."""
    return {
        "checkpoint_s": plan.checkpoint_s,
        "mtbf_s": plan.mtbf_s,
        "restart_s": plan.restart_s,
        "interval_s": plan.interval_s,
        "daly_interval_s": plan.daly_interval_s,
        "waste_fraction": plan.waste_fraction,
        "expected_slowdown": _finite(plan.expected_slowdown),
        "first_order_holds": plan.first_order_holds,
    }


def collective_to_json(result: CollectiveTime) -> dict[str, Any]:
    """Return the JSON of `gpufleet size network`."""
    return {
        "collective": result.collective,
        "ranks": result.ranks,
        "bytes": result.bytes,
        "factor": result.factor,
        "time_s": result.time_s,
        "algbw_GBps": result.algbw_bytes_s / GB,
        "busbw_GBps": result.busbw_bytes_s / GB,
    }


def storage_to_json(result: StorageSizing) -> dict[str, Any]:
    """Return the JSON of `gpufleet size storage`."""
    return {
        "bytes": result.bytes,
        "within_s": result.within_s,
        "throughput_GBps": result.bytes_s / GB,
        "capacity_GiB": result.capacity_gib,
        "currency": CURRENCY,
        "options": [
            {
                "deployment": item.deployment,
                "throughput_MBps_per_TiB": item.throughput,
                "capacity_GiB": item.capacity_gib,
                "throughput_GBps": item.bytes_s / GB,
                "efa": item.efa,
                "bound_by": item.bound_by,
                "monthly": _amount(item.monthly),
                "monthly_minimum": _amount(item.monthly_minimum),
                "monthly_maximum": _amount(item.monthly_maximum),
                "source": item.source,
                "date": item.price_date,
                "note": item.note,
            }
            for item in result.options
        ],
        "onprem": {"capacity_GiB": result.capacity_gib, "links_400Gbps": result.links},
    }


def training_to_json(placement: Placement, time: TrainingTime, rate: HourlyRate) -> dict[str, Any]:
    """Return the JSON of `gpufleet size train`, without what names the model and the GPU."""
    division = placement.parallelism
    return {
        "fits": placement.fits,
        "parallelism": {
            "data": division.data,
            "tensor": division.tensor,
            "pipeline": division.pipeline,
            "zero": division.zero,
            "recompute": placement.recompute,
        },
        "memory_per_gpu_GiB": training_memory_to_json(placement.memory),
        "flops": time.flops,
        "compute_h": time.compute_h,
        "time_h": _finite(time.time_h),
        "gpu_hours": _finite(time.gpu_hours),
        "checkpoint_GB": time.checkpoint_bytes / GB,
        "checkpoints": checkpoints_to_json(time.checkpoints),
        "cost": cost_to_json(rate, time.gpu_hours),
    }


def training_memory_to_json(memory: TrainingMemory) -> dict[str, float]:
    """Return GiB by part."""
    return {
        "parameters": memory.parameters / GIB,
        "gradients": memory.gradients / GIB,
        "optimizer": memory.optimizer / GIB,
        "activations": memory.activations / GIB,
        "logits": memory.logits / GIB,
        "reserve": memory.reserve / GIB,
        "total": memory.total / GIB,
    }


def model_to_json(model: ModelShape) -> dict[str, Any]:
    """Return what a result says of the model."""
    return {
        "type": model.model_type,
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "layers": model.layers,
    }


def inference_to_json(model: ModelShape, place: GpuPlace, result: InferenceSizing) -> dict[str, Any]:
    """Return the JSON of `gpufleet size inference`, without assumptions."""
    return {
        "model": model_to_json(model),
        "gpu": place.gpu,
        "gpus": result.tensor,
        "context": result.context,
        "batch": result.batch,
        "gpu_memory_GiB": result.gpu_bytes / GIB,
        "memory_per_gpu_GiB": inference_memory_to_json(result.memory),
        "kv_cache_per_token_bytes": result.memory.kv_cache_per_token,
        "fits": result.fits,
        "most_sequences": result.most_sequences,
    }


def inference_memory_to_json(memory: InferenceMemory) -> dict[str, float]:
    """Return GiB by part."""
    return {
        "weights": memory.weights / GIB,
        "kv_cache": memory.kv_cache / GIB,
        "activations": memory.activations / GIB,
        "reserve": memory.reserve / GIB,
        "total": memory.total / GIB,
    }


def cost_to_json(rate: HourlyRate, gpu_hours: float) -> dict[str, Any]:
    """Return the cost of GPU-hours with its range; amounts are null if no price is known."""

    def of(price: Decimal | None) -> float | None:
        return None if price is None else _finite(float(price) * gpu_hours)

    return {
        "currency": CURRENCY,
        "amount": of(rate.amount),
        "minimum": of(rate.minimum),
        "maximum": of(rate.maximum),
        "gpu_hour": _amount(rate.amount),
        "source": rate.source,
        "date": rate.date,
        "note": rate.note,
        "unknown": [rate.reason] if rate.amount is None else [],
    }


def spot_to_json(found: SpotComparison) -> dict[str, Any]:
    """Return the JSON of `gpufleet spot compare`. Prices are USD per instance-hour."""
    return {
        "instance_type": found.instance_type,
        "region": found.region,
        "currency": CURRENCY,
        "on_demand": _amount(found.on_demand),
        "spot": _amount(found.spot),
        "spot_low": _amount(found.spot_low),
        "spot_high": _amount(found.spot_high),
        "slowdown": _finite(found.slowdown),
        "saving_fraction": found.saving_fraction,
        "offered": found.spot is not None,
        "reason": found.reason,
        "sources": {
            "on_demand": {"source": found.on_demand_source, "date": found.on_demand_date},
            "spot": {"source": found.spot_source, "date": found.spot_date},
        },
    }


def tco_to_json(result: TcoResult) -> dict[str, Any]:
    """Return the JSON of `gpufleet tco`, without assumptions."""
    return {
        "gpus": result.gpus,
        "years": result.years,
        "utilization": result.utilization,
        "gpu_hours": result.gpu_hours,
        "currency": CURRENCY,
        "cloud": {"total": result.cloud_total},
        "onprem": ownership_to_json(result.owned) | {"per_gpu_hour": result.owned_per_gpu_hour},
        "break_even_utilization": result.break_even_utilization,
        "break_even_month": result.break_even_month,
    }


def risk_to_json(bars: Sequence[TornadoBar], risk: Risk) -> dict[str, Any]:
    """Return `sensitivity` (rented - owned at both ends of each input) and `risk` (5, 50, 95 % of draws)."""

    def of(spread: tuple[float, float, float]) -> dict[str, float]:
        return dict(zip(("p5", "p50", "p95"), spread, strict=True))

    return {
        "sensitivity": [
            {
                "input": bar.name,
                "low": bar.low,
                "high": bar.high,
                "saving_at_low": bar.saving_at_low,
                "saving_at_high": bar.saving_at_high,
            }
            for bar in bars
        ],
        "risk": {
            "draws": risk.draws,
            "seed": risk.seed,
            "cloud": of(risk.rented),
            "onprem": of(risk.owned),
            "saving": of(risk.saving),
            "owning_costs_less_fraction": risk.owning_wins,
            "months": [
                {"month": band.month, "cloud": of(band.rented), "onprem": of(band.owned)}
                for band in risk.bands
            ],
        },
    }


def ownership_to_json(owned: OwnershipCost) -> dict[str, float]:
    """Return USD by part."""
    return {
        "total": owned.total,
        "acquisition": owned.acquisition,
        "network": owned.network,
        "financing": owned.financing,
        "energy": owned.energy,
        "support": owned.support,
        "colocation": owned.colocation,
        "staff": owned.staff,
        "residual": owned.residual,
    }


def _amount(amount: Decimal | None) -> float | None:
    return None if amount is None else float(amount)


def _finite(value: float) -> float | None:
    """Return a number that JSON has: infinite is null."""
    return value if math.isfinite(value) else None
