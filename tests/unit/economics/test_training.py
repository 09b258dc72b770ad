"""Time and cost of training."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.economics.models import model_of
from gpufleet.economics.quantities import GIB
from gpufleet.economics.training import find_parallelism, training_flops, training_time
from gpufleet.errors import InputError
from tests.unit.economics.configs import CONFIGS

LLAMA = model_of(CONFIGS["Llama-3-70B"])


def time(**changes: Any) -> Any:
    values: dict[str, Any] = {
        "tokens": 10**12,
        "gpus": 512,
        "peak_flops": 989e12,
        "sequence_length": 8192,
        "storage_bytes_s": 20e9,
    }
    return training_time(LLAMA, **(values | changes))


def place(gpus: int, gib: float, **changes: Any) -> Any:
    values: dict[str, Any] = {
        "gpus_per_node": 8,
        "sequence_length": 4096,
        "micro_batch": 1,
        "recompute": None,
        "zero": None,
        "tensor": None,
        "pipeline": None,
        "reserve_bytes": 4 * GIB,
    }
    return find_parallelism(LLAMA, gpus, gib * GIB, **(values | changes))


def test_operations_of_llama_3_405b_are_the_published_ones() -> None:
    """3.8e25 FLOPs for 15.6 T tokens ("The Llama 3 Herd of Models", section 3.2)."""
    found = training_flops(model_of(CONFIGS["Llama-3.1-405B"]), 15_600_000_000_000, 8192)
    assert found == pytest.approx(3.8e25, rel=0.08)


def test_gpu_hours_of_llama_2_7b_are_near_the_published_ones() -> None:
    """184,320 A100 hours for 2 T tokens (Llama 2, table 2), which is an MFU of some 42 %."""
    model = model_of(CONFIGS["Llama-2-7B"])
    found = training_time(
        model,
        tokens=2 * 10**12,
        gpus=512,
        peak_flops=312e12,
        sequence_length=4096,
        mfu=0.42,
        storage_bytes_s=20e9,
    )
    assert found.gpu_hours == pytest.approx(184_320, rel=0.12)


def test_failures_take_more_of_a_larger_job() -> None:
    small, large = time(gpus=512), time(gpus=16_384)
    assert small.time_h > small.compute_h
    assert large.time_h / large.compute_h > small.time_h / small.compute_h
    assert round(time(gpus=16_384).checkpoints.mtbf_s / 3600, 3) == 3.093


@settings(max_examples=60)
@given(st.integers(1, 10**13), st.integers(1, 4_096))
def test_time_grows_with_tokens_and_cost_with_hours(tokens: int, gpus: int) -> None:
    found, more = time(tokens=tokens, gpus=gpus), time(tokens=2 * tokens, gpus=gpus)
    assert more.time_h == pytest.approx(2 * found.time_h)
    assert found.gpu_hours == found.time_h * gpus
    assert time(tokens=tokens, gpus=gpus, mfu=0.5).time_h < found.time_h


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"mfu": 1.1}, "MFU of 1.1"),
        ({"mfu": 0.0}, "MFU of 0"),
        ({"gpus": 0}, "must be at least 1"),
        ({"tokens": 0}, "must be at least 1"),
        ({"gpu_hours_per_failure": -1.0}, "not above 0"),
        ({"gpu_hours_per_failure": 1.0}, "would compute nothing"),
    ],
)
def test_absurd_values_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        time(**changes)


def test_parallelism_that_fits_is_the_least_costly_one() -> None:
    found = place(1024, 80)
    assert found.fits
    assert (found.parallelism.tensor, found.parallelism.pipeline, found.recompute) == (8, 1, "attention")
    assert found.parallelism.gpus == 1024
    smaller = place(8, 80)
    assert not smaller.fits, "70B parameters with 16 bytes each are 1.1 TB"
    assert smaller.memory.total > 80 * GIB


def test_given_values_are_not_varied() -> None:
    found = place(1024, 80, tensor=4, pipeline=4, zero=1, recompute="full")
    assert (found.parallelism.tensor, found.parallelism.pipeline, found.parallelism.zero) == (4, 4, 1)
    assert found.recompute == "full"
    with pytest.raises(InputError, match="cannot be divided by tensor 8 x pipeline 3"):
        place(1024, 80, tensor=8, pipeline=3)
