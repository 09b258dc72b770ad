"""Parameters of models by their config.json, against the counts that their makers publish."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpufleet.economics.models import model_of, read_model
from gpufleet.errors import InputError
from tests.unit.economics.configs import CONFIGS, PUBLISHED


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_are_the_published_ones(name: str) -> None:
    assert model_of(CONFIGS[name]).parameters == PUBLISHED[name]


def test_active_parameters_of_experts_are_those_of_one_token() -> None:
    mixtral, llama = model_of(CONFIGS["Mixtral-8x7B"]), model_of(CONFIGS["Llama-2-7B"])
    assert round(mixtral.active_parameters / 1e9, 1) == 12.9
    assert llama.active_parameters == llama.parameters
    assert model_of(CONFIGS["DeepSeek-V3"]).active_parameters // 10**9 == 37


def test_kv_cache_follows_key_value_heads_and_latent_attention() -> None:
    assert model_of(CONFIGS["Llama-3-70B"]).kv_width == 2 * 8 * 128
    assert model_of(CONFIGS["Llama-2-7B"]).kv_width == 2 * 4096
    assert model_of(CONFIGS["DeepSeek-V3"]).kv_width == 512 + 64


def test_nested_text_configuration_is_used() -> None:
    nested = {"model_type": "wrapper", "text_config": CONFIGS["Llama-3-8B"]}
    assert model_of(nested).parameters == PUBLISHED["Llama-3-8B"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model_type": "mamba"}, "'mamba' is not supported"),
        ({"model_type": None}, "None is not supported"),
        ({"hidden_size": None}, "hidden_size missing"),
        ({"hidden_size": None, "vocab_size": None}, "hidden_size, vocab_size missing"),
        ({"hidden_size": -1}, "hidden_size is -1"),
        ({"hidden_size": True}, "hidden_size is True"),
        ({"hidden_size": "4096"}, "hidden_size is '4096'"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ({"hidden_size": 4095}, "not a multiple of 32 attention heads"),
        ({"num_key_value_heads": 64}, "more than 32 attention heads"),
    ],
)
def test_invalid_configuration_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        model_of({**CONFIGS["Llama-3-8B"], **change})


@pytest.mark.parametrize("text", ["", "[1]", "{", '"llama"', "[" * 100_000])
def test_file_that_is_no_configuration_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"not a config\.json"):
        read_model(path)


def test_missing_and_huge_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_model(tmp_path / "config.json")
    path = tmp_path / "large.json"
    path.write_text(json.dumps({"a": "x" * 1_000_001}))
    with pytest.raises(InputError, match="larger than 1000000 bytes"):
        read_model(path)
