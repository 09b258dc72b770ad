"""Storage for checkpoints."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.catalog import load_catalog
from gpufleet.economics.storage import StorageOption, StorageSizing, size_storage
from gpufleet.errors import InputError

CATALOG = load_catalog()


def size(gb: float, within_s: float = 60.0, **options: Any) -> StorageSizing:
    return size_storage(CATALOG, gb * 1e9, within_s, **({"region": "us-east-1"} | options))


def option(found: StorageSizing, deployment: str, throughput: int | None) -> StorageOption:
    (one,) = (
        item for item in found.options if (item.deployment, item.throughput) == (deployment, throughput)
    )
    return one


@pytest.mark.parametrize(("gb", "gb_s"), [(912, "15.20"), (5290, "88.17")])
def test_throughput_is_that_of_the_worked_cases(gb: float, gb_s: str) -> None:
    assert f"{size(gb).bytes_s / 1e9:.2f}" == gb_s


def test_smallest_file_systems_have_the_published_prices() -> None:
    found = size(1, 60)
    scratch, persistent = option(found, "SCRATCH_2", None), option(found, "PERSISTENT_2", 125)
    assert (scratch.capacity_gib, scratch.monthly) == (1200, Decimal("168.00"))
    assert (persistent.capacity_gib, persistent.monthly) == (1200, Decimal("174.000"))


def test_scratch_writes_at_half_the_speed_of_reads() -> None:
    writing = option(size(912), "SCRATCH_2", None)
    reading = option(size(912, direction="read"), "SCRATCH_2", None)
    assert writing.capacity_gib == pytest.approx(2 * reading.capacity_gib, rel=0.02)


@settings(max_examples=150)
@given(st.floats(1, 20_000), st.floats(1, 3_600), st.integers(1, 4), st.booleans())
def test_every_option_is_sold_fast_enough_and_large_enough(
    gb: float, within_s: float, keep: int, efa: bool
) -> None:
    found = size(gb, within_s, keep=keep, efa=efa)
    steps = {125: 38_400, 250: 19_200, 500: 9_600, 1000: 4_800}
    for item in found.options:
        assert item.bytes_s >= found.bytes_s * (1 - 1e-9)
        assert item.capacity_gib * 2**30 >= keep * gb * 1e9
        if efa:
            assert item.capacity_gib % steps[item.throughput or 0] == 0
        else:
            assert item.capacity_gib == 1200 or item.capacity_gib % 2400 == 0
    prices = [item.monthly for item in found.options if item.monthly is not None]
    assert prices == sorted(prices)
    assert {item.deployment for item in found.options} >= (
        {"PERSISTENT_2"} if efa else {"PERSISTENT_2", "SCRATCH_2"}
    )


def test_capacity_binds_if_many_are_kept() -> None:
    assert {item.bound_by for item in size(5_000, 3_600, keep=50).options} == {"capacity"}


def test_links_of_racks_carry_the_throughput() -> None:
    assert size(912).links == 1
    assert size(5_290).links == 2


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(InputError, match="at least one checkpoint"):
        size(1, keep=0)
    with pytest.raises(InputError, match="unknown region 'mars-1'"):
        size(1, region="mars-1")
