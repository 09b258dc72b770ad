"""Time and cost of training: compute, failures and checkpoints, and the parallelism that fits.

Sources: Chowdhery et al., "PaLM" (2022), appendix B: 6 N + 12 L H Q T operations per token for model FLOPs
utilization. "The Llama 3 Herd of Models" (2024), table 5: one unexpected interruption in 50,677 GPU-hours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from gpufleet.economics.checkpoints import CheckpointPlan, checkpoint_plan
from gpufleet.economics.memory import Parallelism, Recompute, TrainingMemory, training_memory
from gpufleet.economics.models import ModelShape
from gpufleet.errors import InputError

GPU_HOURS_PER_FAILURE = 50_677.0
"""16,384 GPUs x 54 d / 419 unexpected interruptions (Llama 3 405B): counts, not the printed shares."""

CHECKPOINT_BYTES_PER_PARAMETER = 13.0
"""MLPerf Storage v2.0, table 2: 105 GB for 8B, 912 GB for 70B, 5.29 TB for 405B parameters."""

MFU = 0.40
"""Model FLOPs utilization: 38 to 43 % for Llama 3 405B in BF16 ("The Llama 3 Herd of Models", table 4)."""

DEFAULT_STORAGE = "20 GB/s"
DEFAULT_RESERVE = "4 GiB"
RESERVE_SOURCE = "no source: CUDA, NCCL and fragmentation take some GiB; enter what you measured"


class TrainingTime(Struct, frozen=True):
    """Hours of a run: `compute_h` without failures, `time_h` with checkpoints, rework and restarts."""

    flops: float
    compute_h: float
    time_h: float
    gpu_hours: float
    checkpoint_bytes: float
    checkpoints: CheckpointPlan


def training_flops(model: ModelShape, tokens: int, sequence_length: int) -> float:
    """Return the operations of a run without recomputation. Embeddings are looked up, and do not count."""
    return tokens * (
        6.0 * model.matrix_parameters + 12.0 * model.layers * model.attention_width * sequence_length
    )


def training_time(
    model: ModelShape,
    *,
    tokens: int,
    gpus: int,
    peak_flops: float,
    sequence_length: int,
    mfu: float = MFU,
    storage_bytes_s: float,
    restart_s: float = 600.0,
    gpu_hours_per_failure: float = GPU_HOURS_PER_FAILURE,
) -> TrainingTime:
    """Return how long a run takes. Raises InputError for impossible utilization."""
    if not 0 < mfu <= 1:
        raise InputError(f"an MFU of {mfu:g} is not above 0 and at most 1", remedy="write --mfu 0.4")
    if gpus < 1 or tokens < 1:
        raise InputError("GPUs and tokens must be at least 1", remedy="write --gpus 64 --tokens 15T")
    if not (math.isfinite(gpu_hours_per_failure) and gpu_hours_per_failure > 0):
        raise InputError(
            f"{gpu_hours_per_failure:g} GPU-hours per failure is not above 0", remedy="write 50677"
        )
    flops = training_flops(model, tokens, sequence_length)
    compute_h = flops / (gpus * peak_flops * mfu) / 3600
    size = CHECKPOINT_BYTES_PER_PARAMETER * model.parameters
    plan = checkpoint_plan(size / storage_bytes_s, gpu_hours_per_failure / gpus * 3600, restart_s=restart_s)
    time_h = compute_h * plan.expected_slowdown
    return TrainingTime(flops, compute_h, time_h, time_h * gpus, size, plan)


class Placement(Struct, frozen=True):
    """A parallelism, its memory, and whether it fits the GPU."""

    parallelism: Parallelism
    memory: TrainingMemory
    recompute: Recompute
    fits: bool


def find_parallelism(
    model: ModelShape,
    gpus: int,
    gpu_bytes: float,
    *,
    gpus_per_node: int,
    sequence_length: int,
    micro_batch: int,
    recompute: Recompute | None,
    zero: Literal[0, 1, 2, 3] | None,
    tensor: int | None,
    pipeline: int | None,
    reserve_bytes: float,
) -> Placement:
    """Return the first division that fits, in the order of what it costs in communication.

    Tensor parallelism stays within a node. Given values are not varied. If nothing fits, the division with
    the least memory is returned, with `fits` False.
    """
    least: Placement | None = None
    for division, again in _divisions(model, gpus, gpus_per_node, recompute, zero, tensor, pipeline):
        memory = training_memory(
            model,
            division,
            sequence_length=sequence_length,
            micro_batch=micro_batch,
            recompute=again,
            reserve_bytes=reserve_bytes,
        )
        found = Placement(division, memory, again, memory.total <= gpu_bytes)
        if found.fits:
            return found
        if least is None or memory.total < least.memory.total:
            least = found
    if least is None:
        raise InputError(
            f"{gpus} GPUs cannot be divided by tensor {tensor or 1} x pipeline {pipeline or 1} parallelism",
            remedy="use a number of GPUs that is a multiple of both, or leave the options out",
        )
    return least


def _divisions(
    model: ModelShape,
    gpus: int,
    gpus_per_node: int,
    recompute: Recompute | None,
    zero: Literal[0, 1, 2, 3] | None,
    tensor: int | None,
    pipeline: int | None,
) -> Iterator[tuple[Parallelism, Recompute]]:
    tensors = [tensor] if tensor else [n for n in (1, 2, 4, 8) if n <= gpus_per_node and not model.heads % n]
    pipelines = [pipeline] if pipeline else [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= model.layers]
    stages: list[Literal[0, 1, 2, 3]] = [zero] if zero is not None else [1, 3]
    again: list[Recompute] = [recompute] if recompute else ["attention", "full"]
    wanted = [
        (division, each)
        for each in again
        for stages_of in pipelines
        for width in tensors
        for stage in stages
        if gpus % (width * stages_of) == 0
        for division in [Parallelism(gpus // (width * stages_of), width, stages_of, stage)]
    ]
    # Recomputation costs a third of the time, ZeRO 3 and pipelines less, tensor parallelism in a node least.
    wanted.sort(key=lambda item: (item[1] == "full", item[0].pipeline, item[0].zero, item[0].tensor))
    yield from wanted
