"""Measurements of real GPUs agree with themselves: what calculators of memory can rely on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.captures import load_capture

FILES = ("measured/memory_h100.json", "measured/memory_h200.json")
WIDTH = {"bf16": 2, "fp32": 4}
CONFIGURATION = (
    *("model", "mode", "batch", "sequence", "checkpointing", "attention", "optimizer", "optimizer_kind"),
    "compiled",
)


def training(file: str) -> list[dict[str, Any]]:
    return [row for row in load_capture(file)["training"] if "peak_bytes" in row]


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in CONFIGURATION)


@pytest.mark.parametrize("file", FILES)
def test_states_of_adamw_take_8_bytes_a_parameter_in_bf16_and_16_otherwise(file: str) -> None:
    for row in training(file):
        states = row["weights_bytes"] + row["gradients_bytes"] + row["optimizer_bytes"]
        wanted = (8 if row["mode"] == "bf16" else 16) - (8 if row["optimizer"] == "sgd" else 0)
        assert states / row["parameters"] == pytest.approx(wanted, rel=0.01), key(row)
        assert row["peak_bytes"] <= row["reserved_bytes"] < load_capture(file)["about"]["total_bytes"]


@pytest.mark.parametrize("file", FILES)
def test_the_cache_of_keys_and_values_is_that_of_the_formula(file: str) -> None:
    found = load_capture(file)
    for row in found["inference"]:
        model = found["about"]["models"][row["model"]]
        head = model["hidden"] // model["heads"]
        one = 2 * model["layers"] * model["kv_heads"] * head * WIDTH[row["dtype"]]
        assert row["cache_bytes"] == one * row["batch"] * row["context"]
        assert row["weights_bytes"] == pytest.approx(row["parameters"] * WIDTH[row["dtype"]], rel=0.01)
        assert (
            row["weights_bytes"] + row["cache_bytes"] <= row["decode_peak_bytes"] <= row["prefill_peak_bytes"]
        )


def test_the_peak_of_a_configuration_does_not_depend_on_the_gpu() -> None:
    one, two = ({key(row): row["peak_bytes"] for row in training(file)} for file in FILES)
    assert len(one.keys() & two.keys()) > 30
    for each in one.keys() & two.keys():
        assert one[each] == pytest.approx(two[each], rel=0.003), each


def test_checkpointing_never_needs_more_memory() -> None:
    rows = {key(row): row["peak_bytes"] for row in training(FILES[0])}
    place = CONFIGURATION.index("checkpointing")
    pairs = [(each, (*each[:place], True, *each[place + 1 :])) for each in rows if not each[place]]
    compared = [(rows[plain], rows[saved]) for plain, saved in pairs if saved in rows]
    assert len(compared) > 20 and all(saved <= plain for plain, saved in compared)
