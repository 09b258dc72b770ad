"""Quantities of calculators."""

from __future__ import annotations

import pytest

from gpufleet.economics.quantities import Count, DataRate, DataSize
from gpufleet.spec.parsing import Quantity, QuantityError


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("912 GB", 912 * 10**9),
        ("2 GiB", 2 * 2**30),
        ("1kB", 1000),
        ("1 KiB", 1024),
        ("0.5 TB", 5 * 10**11),
        ("7 B", 7),
    ],
)
def test_sizes_keep_their_base(text: str, bytes_: int) -> None:
    assert DataSize.parse(text).bytes == bytes_


@pytest.mark.parametrize(
    ("text", "bytes_s"),
    [("78.33 GB/s", 78.33e9), ("400 Gb/s", 50e9), ("1 GiB/s", 2**30), ("100 Mb/s", 12.5e6)],
)
def test_rates_know_bits_from_bytes(text: str, bytes_s: float) -> None:
    assert float(DataRate.parse(text).bytes_s) == bytes_s


@pytest.mark.parametrize(
    ("text", "value"), [("15T", 15 * 10**12), ("1.5 B", 15 * 10**8), ("180000", 180_000)]
)
def test_counts(text: str, value: int) -> None:
    assert Count.parse(text).value == value


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        (DataSize, "912", "the unit is missing"),
        (DataSize, "-1 GB", "it is negative"),
        (DataSize, "0 GB", "it is zero"),
        (DataSize, "1 gb", "did you mean"),
        (DataSize, "1e9 B", "exponents"),
        (DataRate, "1 GB", "unknown unit"),
        (DataRate, "0 GB/s", "it is zero"),
        (Count, "1.5", "not a whole number"),
        (Count, "0", "it is zero"),
        (Count, "3 Q", "unknown unit 'Q'"),
        (Count, "nan", "does not start with a number"),
    ],
)
def test_text_that_is_no_quantity_is_refused(kind: type[Quantity], text: str, says: str) -> None:
    with pytest.raises(QuantityError, match=says):
        kind.parse(text)


@pytest.mark.parametrize("kind", [DataSize, DataRate, Count])
def test_examples_are_read_and_printed_so_that_they_are_read_again(kind: type[Quantity]) -> None:
    for text in kind.examples:
        assert kind.parse(str(kind.parse(text))) == kind.parse(text)
