"""Sizes and throughputs of storage."""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar, Self

from gpufleet.spec.parsing import NUMBER, Quantity, plain

GIB = {"GiB": Decimal(1), "TiB": Decimal(1024), "PiB": Decimal(1024 * 1024)}
LUSTRE_GIB = {"GiB": Decimal(1), "TiB": Decimal(1000), "PiB": Decimal(1000 * 1000)}
DECIMAL_BYTES = {"MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
LARGEST_GIB = Decimal(1024 * 1024)


class Size(Quantity, frozen=True):
    """An amount of storage in whole GiB (`24 TiB`, `1200 GiB`)."""

    gib: Decimal

    noun: ClassVar[str] = "a size"
    accepted: ClassVar[str] = "a whole number of GiB, or TiB or PiB (1 TiB = 1024 GiB)"
    examples: ClassVar[tuple[str, ...]] = ("1200 GiB", "24 TiB")
    pattern: ClassVar[str] = rf"^\s*{NUMBER}\s*(GiB|TiB|PiB)\s*$"
    description: ClassVar[str] = "A size in binary units: GiB, TiB (1024 GiB) or PiB; a whole number of GiB."
    units: ClassVar[dict[str, Decimal]] = GIB

    @classmethod
    def of_gib(cls, gib: int) -> Size:
        """The size of so many GiB."""
        return cls(Decimal(gib))

    @classmethod
    def parse(cls, text: str) -> Self:
        """`24 TiB` -> 24576 GiB. Decimal units are refused: file systems are sold by the GiB."""
        number, unit = cls.split(text)
        if unit in DECIMAL_BYTES:
            gib = number * DECIMAL_BYTES[unit] / 2**30
            near = max(1, int(gib.to_integral_value()))
            exactly = plain(gib.quantize(Decimal("0.001"))) if gib != near else str(near)
            raise cls.error(
                text,
                f"{unit} is a decimal unit, and storage is sold by the GiB ({plain(number)} {unit} is "
                f"{exactly} GiB)",
                cls._in_gib(near, number, unit),
            )
        gib = cls.read(text, cls.units)
        if gib != gib.to_integral_value():
            hint = f"write '{max(1, int(gib.to_integral_value()))} GiB'"
            raise cls.error(text, f"it is {plain(gib)} GiB, which is not a whole number of GiB", hint)
        if gib == 0:
            raise cls.error(text, "it is zero")
        if gib > LARGEST_GIB:
            raise cls.error(text, "it is more than 1 PiB")
        return cls(gib)

    @classmethod
    def _in_gib(cls, near: int, number: Decimal, unit: str) -> str:
        """What to write instead of a decimal size that comes nearest to so many GiB."""
        return f"write '{near} GiB', or '{plain(number)} {unit[0]}iB' if binary units were meant"

    def __str__(self) -> str:
        return f"{plain(self.gib)} GiB"


class LustreSize(Size, frozen=True):
    """The capacity of an FSx for Lustre file system in GiB, counted as FSx counts it.

    FSx sells 1,200 GiB under the name of 1.2 TiB, in its console, its guide and its prices: for a
    file system `24 TiB` is 24,000 GiB, which exists, and not 24,576 GiB, which does not.
    """

    accepted: ClassVar[str] = "a whole number of GiB, or TiB or PiB as FSx counts them (1 TiB = 1000 GiB)"
    examples: ClassVar[tuple[str, ...]] = ("1200 GiB", "24 TiB", "1.2 TiB")
    description: ClassVar[str] = "A size as FSx counts it: GiB, TiB (1000 GiB) or PiB."
    units: ClassVar[dict[str, Decimal]] = LUSTRE_GIB

    @classmethod
    def _in_gib(cls, near: int, number: Decimal, unit: str) -> str:
        """A size that FSx sells without EFA: 1200 GiB, or the nearest multiple of 2400 GiB."""
        sold = 1200 if near < 1800 else max(1, round(near / 2400)) * 2400
        return f"write a size that FSx sells, such as '{sold} GiB' (with EFA larger steps by throughput)"


class ThroughputPerTiB(Quantity, frozen=True):
    """FSx throughput in MB/s for each TiB stored (`250 MB/s/TiB`)."""

    mb_s_per_tib: int

    noun: ClassVar[str] = "a throughput per TiB"
    accepted: ClassVar[str] = "a whole number of MB/s/TiB (FSx sells throughput for each TiB stored)"
    examples: ClassVar[tuple[str, ...]] = ("250 MB/s/TiB", "125 MB/s/TiB")
    pattern: ClassVar[str] = r"^\s*[0-9]+\s*MB/s/TiB\s*$"
    description: ClassVar[str] = "Throughput in MB/s for each TiB of storage."

    @classmethod
    def parse(cls, text: str) -> Self:
        """`250 MB/s/TiB` -> 250."""
        number, unit = cls.split(text)
        if unit == "MB/s":
            raise cls.error(
                text,
                "MB/s would be the throughput of the whole file system",
                f"write the throughput of each TiB, such as '{cls.examples[0]}'",
            )
        value = cls.read(text, {"MB/s/TiB": Decimal(1)})
        if value != value.to_integral_value() or not 1 <= value <= 100_000:
            raise cls.error(text, "it is not a whole number between 1 and 100000")
        return cls(int(number))

    def __str__(self) -> str:
        return f"{self.mb_s_per_tib} MB/s/TiB"
