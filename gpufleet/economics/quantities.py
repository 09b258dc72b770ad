"""Quantities of calculators: amounts of data, data rates and numbers of tokens, as text with a unit."""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar, Self

from gpufleet.spec.parsing import NUMBER, Quantity, plain

BYTES = {
    **{f"{prefix}B": Decimal(1000**power) for power, prefix in enumerate(("", "k", "M", "G", "T", "P"))},
    **{f"{prefix}iB": Decimal(1024**power) for power, prefix in enumerate("KMGTP", start=1)},
}
COUNTS = {"": Decimal(1), **{unit: Decimal(10 ** (3 * power)) for power, unit in enumerate("kMBT", start=1)}}
GB = 10**9
GIB = 2**30


class DataSize(Quantity, frozen=True):
    """An amount of data (`912 GB`, `2 GiB`), above zero."""

    bytes: Decimal

    noun: ClassVar[str] = "an amount of data"
    accepted: ClassVar[str] = "a number and a unit: B, kB, MB, GB, TB, PB (powers of 1000), or KiB ... PiB"
    examples: ClassVar[tuple[str, ...]] = ("912 GB", "2 GiB")
    pattern: ClassVar[str] = rf"^\s*{NUMBER}\s*([kMGTP]?B|[KMGTP]iB)\s*$"
    description: ClassVar[str] = "An amount of data in B, kB ... PB (powers of 1000) or KiB ... PiB."

    @classmethod
    def parse(cls, text: str) -> Self:
        """`2 GiB` -> 2147483648."""
        found = cls.read(text, BYTES)
        if found == 0:
            raise cls.error(text, "it is zero")
        return cls(found)

    def __str__(self) -> str:
        return f"{plain(self.bytes / GB)} GB"


class DataRate(Quantity, frozen=True):
    """A data rate (`78.33 GB/s`, `400 Gb/s`), above zero. `Gb/s` is gigabits."""

    bytes_s: Decimal

    noun: ClassVar[str] = "a data rate"
    accepted: ClassVar[str] = "a number and a unit: MB/s, GB/s, TB/s, MiB/s, GiB/s, or Mb/s, Gb/s (bits)"
    examples: ClassVar[tuple[str, ...]] = ("78.33 GB/s", "400 Gb/s")
    pattern: ClassVar[str] = rf"^\s*{NUMBER}\s*([kMGT]?B|[KMGT]iB|[kMGT]b)/s\s*$"
    description: ClassVar[str] = "A data rate in MB/s, GB/s, GiB/s (bytes) or Gb/s (bits)."

    @classmethod
    def parse(cls, text: str) -> Self:
        """`400 Gb/s` -> 50e9 bytes per second."""
        bits = {f"{prefix}b/s": Decimal(1000**power) / 8 for power, prefix in enumerate("kMGT", start=1)}
        found = cls.read(text, {f"{unit}/s": factor for unit, factor in BYTES.items()} | bits)
        if found == 0:
            raise cls.error(text, "it is zero")
        return cls(found)

    def __str__(self) -> str:
        return f"{plain(self.bytes_s / GB)} GB/s"


class Count(Quantity, frozen=True):
    """A number of tokens or parameters (`15T`, `20B`, `180000`), whole and above zero."""

    value: int

    noun: ClassVar[str] = "a number"
    accepted: ClassVar[str] = "a whole number, or one with k, M, B (10^9) or T (10^12)"
    examples: ClassVar[tuple[str, ...]] = ("15T", "20B")
    pattern: ClassVar[str] = rf"^\s*{NUMBER}\s*[kMBT]?\s*$"
    description: ClassVar[str] = "A number, or one with k, M, B (10^9) or T (10^12)."

    @classmethod
    def parse(cls, text: str) -> Self:
        """`1.5T` -> 1500000000000."""
        number, unit = cls.split(text)
        if unit not in COUNTS:
            raise cls.error(text, f"unknown unit '{unit[:20]}'")
        found = number * COUNTS[unit]
        if found != found.to_integral_value():
            raise cls.error(text, "it is not a whole number")
        if found == 0:
            raise cls.error(text, "it is zero")
        return cls(int(found))

    def __str__(self) -> str:
        return f"{self.value}"
