"""What a model needs for inference, and how many sequences fit."""

from __future__ import annotations

from msgspec import Struct

from gpufleet.economics.memory import InferenceMemory, Precision, inference_memory
from gpufleet.economics.models import ModelShape


class InferenceSizing(Struct, frozen=True):
    """The memory of each GPU. `most_sequences` of the context fit at once; 0 if the weights do not."""

    tensor: int
    context: int
    batch: int
    memory: InferenceMemory
    gpu_bytes: float
    fits: bool
    most_sequences: int


def size_inference(
    model: ModelShape,
    gpu_bytes: float,
    *,
    tensor: int,
    weights: Precision,
    cache: Precision,
    context: int,
    batch: int,
    reserve_bytes: float,
) -> InferenceSizing:
    """Return the sizing for `batch` sequences of `context` tokens on `tensor` GPUs of `gpu_bytes` each."""
    memory = inference_memory(
        model,
        tensor=tensor,
        weights=weights,
        cache=cache,
        context=context,
        batch=batch,
        reserve_bytes=reserve_bytes,
    )
    room = gpu_bytes - (memory.total - memory.kv_cache)
    return InferenceSizing(
        tensor=tensor,
        context=context,
        batch=batch,
        memory=memory,
        gpu_bytes=gpu_bytes,
        fits=memory.total <= gpu_bytes,
        most_sequences=max(0, int(room // (memory.kv_cache / batch))),
    )
