"""GPU memory of training and inference by part, in bytes.

Sources: Rajbhandari et al., "ZeRO" (SC 2020): 16 bytes per parameter with mixed-precision Adam, and what each
stage shards. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (MLSys
2023): activations per layer, with tensor and sequence parallelism. Tests compare with both.
"""

from __future__ import annotations

import math
from typing import Literal

from msgspec import Struct

from gpufleet.economics.models import ModelShape
from gpufleet.errors import InputError

Recompute = Literal["none", "attention", "full"]
"""Activations that are computed again: none, those of attention scores (also with FlashAttention, which never
stores them), or all but the input of each layer."""

Precision = Literal["fp32", "bf16", "fp16", "fp8", "int8", "int4"]
BYTES_PER_VALUE: dict[Precision, float] = {
    "fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "int4": 0.5,
}  # fmt: skip

WEIGHT_BYTES = 2
GRADIENT_BYTES = 2
OPTIMIZER_BYTES = 12
"""Adam in mixed precision: a copy of the weights, momentum and variance, in 32 bits."""


class Parallelism(Struct, frozen=True):
    """How a job is divided: data, tensor and pipeline parallel ranks, and the ZeRO stage (3 is FSDP)."""

    data: int
    tensor: int = 1
    pipeline: int = 1
    zero: Literal[0, 1, 2, 3] = 1
    sequence: bool = True
    """Sequence parallelism in the tensor-parallel group: norms and inputs are divided, too."""

    @property
    def gpus(self) -> int:
        """All ranks."""
        return self.data * self.tensor * self.pipeline


class TrainingMemory(Struct, frozen=True):
    """Bytes on the GPU that has most. `reserve` is for CUDA, NCCL and fragmentation: an assumption."""

    parameters: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    reserve: float

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return sum(
            (self.parameters, self.gradients, self.optimizer, self.activations, self.logits, self.reserve)
        )


class InferenceMemory(Struct, frozen=True):
    """Bytes on each GPU. `kv_cache_per_token` is that of one token on one GPU."""

    weights: float
    kv_cache: float
    kv_cache_per_token: float
    activations: float
    reserve: float

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return self.weights + self.kv_cache + self.activations + self.reserve


def check_division(model: ModelShape, parallelism: Parallelism) -> None:
    """Raise InputError if heads or layers cannot be divided so."""
    if parallelism.tensor < 1 or parallelism.pipeline < 1 or parallelism.data < 1:
        raise InputError("parallelism below 1", remedy="write --tensor 8 --pipeline 1 or the like")
    if model.heads % parallelism.tensor:
        raise InputError(
            f"{model.heads} attention heads cannot be divided by tensor parallelism {parallelism.tensor}",
            remedy=f"use a divisor of {model.heads}",
        )
    if model.layers < parallelism.pipeline:
        raise InputError(
            f"{model.layers} layers are fewer than {parallelism.pipeline} pipeline stages",
            remedy=f"use at most {model.layers}",
        )


def training_memory(
    model: ModelShape,
    parallelism: Parallelism,
    *,
    sequence_length: int,
    micro_batch: int = 1,
    recompute: Recompute = "attention",
    reserve_bytes: float = 0.0,
) -> TrainingMemory:
    """Return the memory of mixed-precision training with Adam on the first pipeline stage.

    With 1F1B schedules the first stage keeps activations of as many micro-batches as there are stages, so its
    activations are those of all layers. Logits (32 bits) are on the last stage: they count where there is one
    stage only. Data parallel ranks shard the optimizer (ZeRO 1), gradients (2) and parameters (3).
    """
    check_division(model, parallelism)
    if sequence_length < 1 or micro_batch < 1:
        raise InputError("sequence length and micro-batch must be at least 1", remedy="write --sequence 4096")
    held: float = model.parameters
    if parallelism.pipeline > 1:
        share = math.ceil(model.layers / parallelism.pipeline) / model.layers
        held = model.layer_parameters * share + model.embedding_parameters
    held /= parallelism.tensor
    stage, data = parallelism.zero, parallelism.data
    return TrainingMemory(
        parameters=WEIGHT_BYTES * held / (data if stage >= 3 else 1),
        gradients=GRADIENT_BYTES * held / (data if stage >= 2 else 1),
        optimizer=OPTIMIZER_BYTES * held / (data if stage >= 1 else 1),
        activations=_activations(model, parallelism, sequence_length, micro_batch, recompute),
        logits=4 * sequence_length * micro_batch * model.vocabulary / parallelism.tensor
        if parallelism.pipeline == 1
        else 0,
        reserve=reserve_bytes,
    )


def layer_activation_bytes(
    model: ModelShape, tensor: int, sequence: bool, tokens: int, sequence_length: int, recompute: Recompute
) -> float:
    """Return the activations of one layer for one micro-batch of `tokens`, in bytes (2 per value).

    For a GPT layer (MLP of 4 h) this is the paper's s b h (34 + 5 a s / h) without the two dropout masks (2).
    """
    shared = tensor if sequence else 1
    if recompute == "full":
        return 2 * tokens * model.hidden / shared
    inputs = 8 * model.hidden / shared  # two norms, and what attention and MLP read
    mlp_values = 3 if model.gated else 2
    inner = 2 * (2 * model.attention_width + model.kv_width) + 2 * mlp_values * model.intermediate
    # Scores, their softmax, and its dropout mask: 2 + 2 + 1 bytes for each pair of tokens and head.
    scores = 5 * model.heads * sequence_length if recompute == "none" else 0
    return tokens * (inputs + (inner + scores) / tensor)


def _activations(
    model: ModelShape, parallelism: Parallelism, sequence_length: int, micro_batch: int, recompute: Recompute
) -> float:
    tokens = sequence_length * micro_batch
    one = layer_activation_bytes(
        model, parallelism.tensor, parallelism.sequence, tokens, sequence_length, recompute
    )
    total = model.layers * one
    if recompute == "full":
        # While a layer is computed again, all of its activations exist once.
        total += layer_activation_bytes(
            model, parallelism.tensor, parallelism.sequence, tokens, sequence_length, "attention"
        )
    return total


def inference_memory(
    model: ModelShape,
    *,
    tensor: int = 1,
    weights: Precision = "bf16",
    cache: Precision = "bf16",
    context: int,
    batch: int = 1,
    reserve_bytes: float = 0.0,
) -> InferenceMemory:
    """Return the memory of each of `tensor` GPUs for `batch` sequences of `context` tokens.

    The KV cache is divided by heads up to the number of key-value heads; a latent cache (DeepSeek) is on each
    GPU. Layers with a sliding window keep at most the window. Activations are those of one layer's prefill of
    one sequence, which servers bound by chunks: an upper bound.
    """
    check_division(model, Parallelism(1, tensor))
    if context < 1 or batch < 1:
        raise InputError("context and batch must be at least 1", remedy="write --context 8192 --batch 16")
    if model.most_positions is not None and context > model.most_positions:
        raise InputError(
            f"a context of {context} tokens is longer than the model's {model.most_positions}",
            remedy=f"use at most {model.most_positions}",
        )
    head = model.attention_width // model.heads
    groups = max(1, model.kv_width // (2 * head)) if model.kv_width % (2 * head) == 0 else 1
    per_token = model.layers * model.kv_width * BYTES_PER_VALUE[cache] / min(tensor, groups)
    cached = min(context, model.window or context)
    return InferenceMemory(
        weights=model.parameters * BYTES_PER_VALUE[weights] / tensor,
        kv_cache=per_token * cached * batch,
        kv_cache_per_token=per_token,
        activations=layer_activation_bytes(model, tensor, False, min(context, 8192), context, "attention"),
        reserve=reserve_bytes,
    )
