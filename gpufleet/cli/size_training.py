"""`gpufleet size train`: options to results."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, cast, get_args

from msgspec import Struct

from gpufleet.cli.checkout_catalog import checkout_catalog
from gpufleet.cli.console import emit_json, out
from gpufleet.cli.options_read import OptionReader
from gpufleet.economics.json import Assumption, assumptions_to_json, model_to_json, training_to_json
from gpufleet.economics.memory import Recompute
from gpufleet.economics.models import read_model
from gpufleet.economics.places import GpuPlace, HourlyRate, gpu_hour, place_of
from gpufleet.economics.quantities import Count, DataRate, DataSize
from gpufleet.economics.training import (
    DEFAULT_RESERVE,
    DEFAULT_STORAGE,
    GPU_HOURS_PER_FAILURE,
    MFU,
    RESERVE_SOURCE,
    find_parallelism,
    training_time,
)
from gpufleet.errors import InputError
from gpufleet.report.economics_text import show_training
from gpufleet.spec.quantity import Duration, HourlyPrice


class TrainingOptions(Struct, frozen=True):
    """The options of the command; None for those that were not given."""

    config: Path
    tokens: str
    gpus: int
    gpu_type: str
    sequence: int
    micro_batch: int
    tensor: int | None
    pipeline: int | None
    zero: int | None
    recompute: str | None
    mfu: float | None
    peak_tflops: float | None
    storage: str
    restart: str
    gpu_hours_per_failure: float | None
    price: str | None
    region: str
    reserve: str


def run(options: TrainingOptions, *, json: bool) -> None:
    """Compute and print. Raises InputError for what cannot be read or divided."""
    if options.recompute is not None and options.recompute not in get_args(Recompute):
        raise InputError(
            f"--recompute: unknown value {options.recompute!r}",
            remedy=f"write one of {', '.join(get_args(Recompute))}",
        )
    read = OptionReader()
    tokens = read.quantity(Count, "--tokens", options.tokens)
    rate = read.quantity(DataRate, "--storage", options.storage)
    restart = read.quantity(Duration, "--restart", options.restart)
    free = read.quantity(DataSize, "--reserve", options.reserve)
    price = read.optional(HourlyPrice, "--price", options.price)
    read.finish()
    if tokens is None or rate is None or restart is None or free is None:
        raise AssertionError("finish raises for what cannot be read")
    catalog = checkout_catalog()
    place = place_of(catalog, options.gpu_type)
    model = read_model(options.config)
    placement = find_parallelism(
        model,
        options.gpus,
        place.need_memory(),
        gpus_per_node=place.gpus_per_node,
        sequence_length=options.sequence,
        micro_batch=options.micro_batch,
        recompute=cast("Recompute | None", options.recompute),
        zero=cast("Literal[0, 1, 2, 3] | None", options.zero),
        tensor=options.tensor,
        pipeline=options.pipeline,
        reserve_bytes=float(free.bytes),
    )
    time = training_time(
        model,
        tokens=tokens.value,
        gpus=options.gpus,
        peak_flops=_peak(options, place),
        sequence_length=options.sequence,
        mfu=MFU if options.mfu is None else options.mfu,
        storage_bytes_s=float(rate.bytes_s),
        restart_s=restart.delta.total_seconds(),
        gpu_hours_per_failure=options.gpu_hours_per_failure or GPU_HOURS_PER_FAILURE,
    )
    hourly = (
        HourlyRate(price.amount, price.amount, price.amount, source="--price")
        if price is not None
        else gpu_hour(catalog, place, options.region)
    )
    assumed = _assumptions(options, place)
    if json:
        document = {
            "model": model_to_json(model),
            "gpu": place.gpu,
            "gpus": options.gpus,
            "tokens": tokens.value,
        }
        document |= training_to_json(placement, time, hourly)
        emit_json(document | {"assumptions": assumptions_to_json(assumed)})
    else:
        show_training(model, place, placement, time, hourly, assumed, out)


def _peak(options: TrainingOptions, place: GpuPlace) -> float:
    if options.peak_tflops is not None:
        if options.peak_tflops <= 0:
            raise InputError(f"--peak-tflops: {options.peak_tflops:g} is not above 0", remedy="write 989")
        return options.peak_tflops * 1e12
    if place.peak_flops is None:
        raise InputError(
            f"the peak throughput of {place.gpu} is not known",
            remedy="give --peak-tflops: the dense 16-bit figure of its data sheet",
        )
    return place.peak_flops


def _assumptions(options: TrainingOptions, place: GpuPlace) -> list[Assumption]:
    """Return the values that were not given."""
    found = []
    if options.mfu is None:
        found.append(Assumption("MFU", f"{MFU:g}", 'Llama 3 405B: 38 to 43 % ("The Llama 3 Herd of Models")'))
    if options.peak_tflops is None and place.peak_flops is not None:
        found.append(Assumption("peak", f"{place.peak_flops / 1e12:g} TFLOPS", place.peak_source))
    if options.gpu_hours_per_failure is None:
        text = "Llama 3 405B: 419 unexpected interruptions in 54 days on 16,384 H100"
        found.append(Assumption("GPU-hours per failure", f"{GPU_HOURS_PER_FAILURE:g}", text))
    if options.storage == DEFAULT_STORAGE:
        found.append(Assumption("storage", DEFAULT_STORAGE, "no source: enter that of your file system"))
    if options.reserve == DEFAULT_RESERVE:
        found.append(Assumption("reserve", DEFAULT_RESERVE, RESERVE_SOURCE))
    return found
