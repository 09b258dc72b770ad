"""GPU memory against the papers, and against what must hold for any model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpufleet.economics.memory import (
    Parallelism,
    inference_memory,
    layer_activation_bytes,
    training_memory,
)
from gpufleet.economics.models import ModelShape, model_of
from gpufleet.economics.quantities import GB
from gpufleet.errors import InputError
from tests.unit.economics.configs import CONFIGS

LLAMA = model_of(CONFIGS["Llama-2-7B"])
GPT = model_of(CONFIGS["GPT-2"])


def states(model: ModelShape, division: Parallelism) -> float:
    found = training_memory(model, division, sequence_length=2048)
    return found.parameters + found.gradients + found.optimizer


def test_seven_billion_parameters_need_112_gb_of_states() -> None:
    seven = replace(LLAMA, parameters=7 * 10**9)
    found = training_memory(seven, Parallelism(1, zero=0), sequence_length=2048)
    assert found.parameters == 14 * GB
    assert found.parameters + found.gradients + found.optimizer == 112 * GB


@pytest.mark.parametrize(("zero", "gb"), [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_stages_are_those_of_the_paper(zero: Any, gb: float) -> None:
    """Figure 1 of the ZeRO paper: 7.5 billion parameters on 64 GPUs."""
    model = replace(LLAMA, parameters=7_500_000_000)
    assert states(model, Parallelism(64, zero=zero)) / GB == pytest.approx(gb, abs=0.05)


@pytest.mark.parametrize(
    ("tensor", "sequence", "recompute", "per_sbh"),
    [
        (1, False, "attention", 32.0),
        (8, False, "attention", 8 + 24 / 8),
        (8, True, "attention", 32 / 8),
        (1, False, "full", 2.0),
        (8, True, "full", 2 / 8),
    ],
)
def test_activations_of_a_gpt_layer_are_those_of_the_paper_without_dropout(
    tensor: int, sequence: bool, recompute: Any, per_sbh: float
) -> None:
    """Table 2 of Korthikanti et al.: s b h (34 + 5 a s / h), of which 2 s b h are dropout masks."""
    gpt = replace(GPT, heads=16, hidden=2048, attention_width=2048, kv_width=4096, intermediate=8192)
    found = layer_activation_bytes(gpt, tensor, sequence, 4096, 1024, recompute)
    assert found == pytest.approx(per_sbh * 4096 * 2048)


def test_attention_scores_count_without_recomputation() -> None:
    gpt = replace(GPT, heads=16, hidden=2048, attention_width=2048, kv_width=4096, intermediate=8192)
    kept = layer_activation_bytes(gpt, 1, False, 1024, 1024, "none")
    again = layer_activation_bytes(gpt, 1, False, 1024, 1024, "attention")
    assert kept - again == 5 * 16 * 1024 * 1024


sizes = st.fixed_dictionaries(
    {
        "hidden_size": st.sampled_from([1024, 2048, 4096, 8192]),
        "num_hidden_layers": st.integers(8, 128),
        "intermediate_size": st.sampled_from([4096, 11008, 28672]),
        "vocab_size": st.integers(1_000, 300_000),
    }
)


@settings(max_examples=100)
@given(
    sizes,
    st.sampled_from(["num_hidden_layers", "intermediate_size", "vocab_size"]),
    st.sampled_from([0, 1, 2, 3]),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([1, 2, 4]),
)
def test_memory_never_falls_when_a_model_grows(
    values: dict[str, int], grows: str, zero: Any, tensor: int, pipeline: int
) -> None:
    base = CONFIGS["Llama-2-7B"] | {"num_attention_heads": 8, "num_key_value_heads": 8} | values
    small, large = model_of(base), model_of(base | {grows: base[grows] * 2})
    division = Parallelism(4, tensor, pipeline, zero)
    assert large.parameters > small.parameters
    for model_memory in (
        lambda model: training_memory(model, division, sequence_length=2048).total,
        lambda model: inference_memory(model, tensor=tensor, context=2048, batch=4).total,
    ):
        assert model_memory(large) > model_memory(small)


@settings(max_examples=60)
@given(st.sampled_from([0, 1, 2]), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]))
def test_more_sharding_never_needs_more_memory(zero: Any, tensor: int, pipeline: int) -> None:
    def total(division: Parallelism) -> float:
        return training_memory(LLAMA, division, sequence_length=4096).total

    division = Parallelism(8, tensor, pipeline, zero)
    assert total(replace(division, zero=zero + 1)) <= total(division)
    assert total(replace(division, data=16)) <= total(division)
    assert states(LLAMA, replace(division, pipeline=2 * pipeline)) < states(LLAMA, division)


def test_kv_cache_is_that_of_the_formula() -> None:
    """Llama 2 7B in 16 bits: 2 x 32 layers x 4096 x 2 bytes = 0.5 MiB per token."""
    found = inference_memory(LLAMA, context=4096, batch=2)
    assert found.kv_cache_per_token == 2**19
    assert found.kv_cache == 2**19 * 4096 * 2
    assert found.weights == 2 * 6_738_415_616


def test_kv_cache_is_divided_by_its_heads_only() -> None:
    llama = model_of(CONFIGS["Llama-3-70B"])  # 8 key-value heads
    one, eight, sixteen = (inference_memory(llama, tensor=n, context=4096).kv_cache for n in (1, 8, 16))
    assert one == 8 * eight == 8 * sixteen
    deepseek = model_of(CONFIGS["DeepSeek-V3"])
    assert (
        inference_memory(deepseek, tensor=8, context=4096).kv_cache
        == inference_memory(deepseek, context=4096).kv_cache
    )


def test_sliding_window_limits_the_cache() -> None:
    mistral = model_of(CONFIGS["Mistral-7B"])
    assert (
        inference_memory(mistral, context=32_768).kv_cache
        == inference_memory(mistral, context=4_096).kv_cache
    )


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"tensor": 7}, "cannot be divided by tensor parallelism 7"),
        ({"context": 0}, "must be at least 1"),
        ({"batch": 0}, "must be at least 1"),
    ],
)
def test_impossible_inference_is_refused(values: dict[str, int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        inference_memory(LLAMA, **({"context": 4096} | values))


def test_context_beyond_the_model_is_refused() -> None:
    with pytest.raises(InputError, match="longer than the model's 1024"):
        inference_memory(GPT, context=1025)


@pytest.mark.parametrize(
    ("division", "says"),
    [
        (Parallelism(1, 3), "32 attention heads cannot be divided"),
        (Parallelism(1, 1, 64), "32 layers are fewer than 64"),
        (Parallelism(0), "parallelism below 1"),
    ],
)
def test_impossible_divisions_are_refused(division: Parallelism, says: str) -> None:
    with pytest.raises(InputError, match=says):
        training_memory(LLAMA, division, sequence_length=4096)
