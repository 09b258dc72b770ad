"""Transformer models by the `config.json` that their makers publish: parameters, sizes for memory and time.

Field names and defaults are those of Hugging Face transformers' configuration classes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpufleet.errors import InputError

MOST_BYTES = 1_000_000
_LARGEST = 10**7

GATED = {"llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2", "phi3"}
"""Model types with a gated MLP: three matrices instead of two."""

PLAIN = {"gpt2", "gpt_neox", "opt"}
"""Model types with two matrices in the MLP, biases, and LayerNorms with biases."""

LATENT = {"deepseek_v2", "deepseek_v3"}
"""Model types with multi-head latent attention: the KV cache has one compressed vector per token."""

SUPPORTED = sorted(GATED | PLAIN | LATENT)

_QKV_BIAS = {"qwen2", "qwen2_moe"}
_NORMS_PER_LAYER = {"gemma2": 4}
_QK_NORM = {"qwen3", "qwen3_moe"}
_ONE_NAME = {
    "hidden_size": ("hidden_size", "n_embd"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer"),
    "num_attention_heads": ("num_attention_heads", "n_head"),
    "intermediate_size": ("intermediate_size", "n_inner", "ffn_dim"),
    "max_position_embeddings": ("max_position_embeddings", "n_positions"),
}


class Experts(Struct, frozen=True):
    """A mixture of experts: `total` routed ones, of which `active` see a token, and `shared` that see all."""

    total: int
    active: int
    shared: int
    intermediate: int
    dense_layers: int


class ModelShape(Struct, frozen=True):
    """A decoder-only transformer. `parameters` counts all, `active_parameters` those that one token uses.

    `kv_width` is the number of values per token and layer in the KV cache; `window` limits the cached tokens
    (sliding-window attention; None: the whole context). `attention_width` is heads x head size.
    `head_parameters` are those of the output matrix, which is the embedding's if `tied`.
    """

    model_type: str
    layers: int
    hidden: int
    heads: int
    attention_width: int
    kv_width: int
    intermediate: int
    vocabulary: int
    gated: bool
    experts: Experts | None
    window: int | None
    most_positions: int | None
    embedding_parameters: int
    head_parameters: int
    tied: bool
    parameters: int
    active_parameters: int

    @property
    def matrix_parameters(self) -> int:
        """The parameters that a token is multiplied with: without look-ups, with the output matrix."""
        return self.active_parameters - self.embedding_parameters + (self.head_parameters if self.tied else 0)

    @property
    def layer_parameters(self) -> int:
        """The parameters of all layers."""
        return self.parameters - self.embedding_parameters - (0 if self.tied else self.head_parameters)


def read_model(path: Path) -> ModelShape:
    """Return the model of a `config.json`. Raises InputError for files that are none, or unknown models."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path} is larger than {MOST_BYTES} bytes", remedy="name a model's config.json")
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a config.json: {error}", remedy="name a model's config.json") from None
    if not isinstance(document, dict):
        raise InputError(
            f"{path}: not a config.json: expected a JSON object", remedy="name a model's config.json"
        )
    return model_of(document, str(path))


def model_of(config: Mapping[str, Any], where: str = "config.json") -> ModelShape:
    """Return the model of a configuration. Raises InputError with all missing or invalid fields."""
    if isinstance(config.get("text_config"), dict):
        config = config["text_config"]
    kind = config.get("model_type")
    if kind not in SUPPORTED:
        raise InputError(
            f"{where}: model_type {kind!r} is not supported",
            remedy=f"supported are {', '.join(SUPPORTED)}; for others use --parameters and the other options",
        )
    fields = _Fields(config, where)
    wanted = ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"]
    if kind not in {"gpt2"}:
        wanted.append("intermediate_size")
    values = fields.required(wanted)
    hidden, layers, heads, vocabulary = (values[name] for name in wanted[:4])
    intermediate = values.get("intermediate_size") or fields.optional("intermediate_size") or 4 * hidden
    if fields.optional("head_dim") is None and kind not in LATENT and hidden % heads:
        raise InputError(
            f"{where}: hidden_size {hidden} is not a multiple of {heads} attention heads",
            remedy="add head_dim, or correct the file",
        )
    head = fields.optional("head_dim") or hidden // heads
    kv_heads = fields.optional("num_key_value_heads") or heads
    if kv_heads > heads:
        raise InputError(
            f"{where}: {kv_heads} key-value heads are more than {heads} attention heads",
            remedy="correct num_key_value_heads",
        )
    experts = _experts(fields, kind, intermediate)
    attention, kv_width, width = (
        _latent_attention(fields, hidden, heads)
        if kind in LATENT
        else _attention(kind, hidden, heads, kv_heads, head, config)
    )
    embedding = vocabulary * hidden
    tied = bool(config.get("tie_word_embeddings", kind in {"gpt2", "gemma", "gemma2", "opt"}))
    positions = 0
    if kind in {"gpt2", "opt"}:
        positions = (
            fields.required(["max_position_embeddings"])["max_position_embeddings"] + 2 * (kind == "opt")
        ) * hidden
    norms = _NORMS_PER_LAYER.get(kind, 2) * hidden * (2 if kind in PLAIN else 1)
    final_norm = hidden * (2 if kind in PLAIN else 1)
    outside = embedding * (1 if tied else 2) + positions + final_norm
    dense = _mlp(kind, hidden, intermediate)
    total = outside + layers * (attention + norms)
    active = total
    if experts is None:
        total += layers * dense
        active = total
    else:
        one, router = _mlp(kind, hidden, experts.intermediate), hidden * experts.total
        router += experts.total if kind == "deepseek_v3" else 0
        shared = _shared(kind, hidden, experts, fields)
        sparse = layers - experts.dense_layers
        total += experts.dense_layers * dense + sparse * (experts.total * one + shared + router)
        active += experts.dense_layers * dense + sparse * (experts.active * one + shared + router)
    window = fields.optional("sliding_window") if config.get("use_sliding_window", True) else None
    return ModelShape(
        model_type=kind,
        layers=layers,
        hidden=hidden,
        heads=heads,
        attention_width=width,
        kv_width=kv_width,
        intermediate=intermediate
        if experts is None
        else experts.intermediate * (experts.active + experts.shared),
        vocabulary=vocabulary,
        gated=kind not in PLAIN,
        experts=experts,
        # Gemma 2 has the window in every other layer only: counting the whole context is the safe side.
        window=window if kind in {"mistral", "mixtral", "phi3"} else None,
        most_positions=fields.optional("max_position_embeddings"),
        embedding_parameters=embedding + positions,
        head_parameters=embedding,
        tied=tied,
        parameters=total,
        active_parameters=active,
    )


def _attention(
    kind: str, hidden: int, heads: int, kv_heads: int, head: int, config: Mapping[str, Any]
) -> tuple[int, int, int]:
    """Return parameters per layer, values per token in the KV cache, and the width of queries."""
    width, kv = heads * head, kv_heads * head
    parameters = 2 * hidden * width + 2 * hidden * kv
    if kind in PLAIN or config.get("attention_bias"):
        parameters += width + 2 * kv + hidden
    elif kind in _QKV_BIAS:
        parameters += width + 2 * kv
    if kind in _QK_NORM:
        parameters += 2 * head
    return parameters, 2 * kv, width


def _latent_attention(fields: _Fields, hidden: int, heads: int) -> tuple[int, int, int]:
    """Return the same for multi-head latent attention (DeepSeek-V2 report, section 2.1)."""
    names = ["kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"]
    values = fields.required(names)
    rank, rope, nope, value = (values[name] for name in names)
    queries = heads * (nope + rope)
    q_rank = fields.optional("q_lora_rank")
    parameters = hidden * queries if q_rank is None else hidden * q_rank + q_rank + q_rank * queries
    parameters += hidden * (rank + rope) + rank + rank * heads * (nope + value) + heads * value * hidden
    return parameters, rank + rope, queries


def _mlp(kind: str, hidden: int, intermediate: int) -> int:
    if kind in PLAIN:
        return 2 * hidden * intermediate + intermediate + hidden
    return 3 * hidden * intermediate


def _experts(fields: _Fields, kind: str, intermediate: int) -> Experts | None:
    match kind:
        case "mixtral":
            values = fields.required(["num_local_experts", "num_experts_per_tok"])
            return Experts(values["num_local_experts"], values["num_experts_per_tok"], 0, intermediate, 0)
        case "qwen2_moe" | "qwen3_moe":
            names = ["num_experts", "num_experts_per_tok", "moe_intermediate_size"]
            values = fields.required(names)
            # The shared expert of Qwen2 has a size of its own (`_shared`).
            return Experts(
                values["num_experts"], values["num_experts_per_tok"], 0, values["moe_intermediate_size"], 0
            )
        case "deepseek_v2" | "deepseek_v3":
            names = ["n_routed_experts", "num_experts_per_tok", "n_shared_experts", "moe_intermediate_size"]
            values = fields.required(names)
            dense = fields.optional("first_k_dense_replace") or 0
            total, active, shared, size = (values[name] for name in names)
            return Experts(total, active, shared, size, dense)
    return None


def _shared(kind: str, hidden: int, experts: Experts, fields: _Fields) -> int:
    """Return the parameters per layer of experts that see every token."""
    if kind == "qwen2_moe":
        size = fields.required(["shared_expert_intermediate_size"])["shared_expert_intermediate_size"]
        return 3 * hidden * size + hidden
    return 3 * hidden * experts.intermediate * experts.shared


class _Fields:
    """Numbers of a configuration, under any of the names that a field has."""

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        self._config = config
        self._where = where

    def optional(self, name: str) -> int | None:
        """Return a number above zero, None if it is missing or null."""
        for alias in _ONE_NAME.get(name, (name,)):
            value = self._config.get(alias)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _LARGEST:
                raise InputError(
                    f"{self._where}: {alias} is {value!r}; it must be a whole number from 1 to {_LARGEST}",
                    remedy="use the file as the model's makers publish it",
                )
            return value
        return None

    def required(self, names: list[str]) -> dict[str, int]:
        """Return the numbers. Raises InputError with all that are missing."""
        found = {name: self.optional(name) for name in names}
        missing = [name for name, value in found.items() if value is None]
        if missing:
            raise InputError(
                f"{self._where}: {', '.join(missing)} missing",
                remedy="use the file as the model's makers publish it",
            )
        return {name: value for name, value in found.items() if value is not None}
