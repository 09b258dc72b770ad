"""Quantities of the fleet file: text with a unit on the outside, one exact value on the inside."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import ClassVar, Self

from gpufleet.spec.hosts import HostList, HostRange
from gpufleet.spec.parsing import NUMBER, Quantity, QuantityError, plain

__all__ = [
    "Duration",
    "EnergyPrice",
    "HostList",
    "HostRange",
    "HourlyPrice",
    "LustreSize",
    "Money",
    "Percent",
    "Power",
    "Quantity",
    "QuantityError",
    "Size",
    "ThroughputPerTiB",
    "When",
]

GIB = {"GiB": Decimal(1), "TiB": Decimal(1024), "PiB": Decimal(1024 * 1024)}
LUSTRE_GIB = {"GiB": Decimal(1), "TiB": Decimal(1000), "PiB": Decimal(1000 * 1000)}
DECIMAL_BYTES = {"MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
MICROSECONDS = {
    "s": Decimal(10**6),
    "min": Decimal(60 * 10**6),
    "h": Decimal(3600 * 10**6),
    "d": Decimal(86_400 * 10**6),
    "w": Decimal(7 * 86_400 * 10**6),
    "y": Decimal(365 * 86_400 * 10**6),
}
KILOWATTS = {"W": Decimal("0.001"), "kW": Decimal(1), "MW": Decimal(1000)}
THOUSANDS = {"k": 10**3, "M": 10**6}
PER_KWH = {"kWh": Decimal(1), "MWh": Decimal("0.001")}
LARGEST_GIB = Decimal(1024 * 1024)
LONGEST_DURATION = timedelta(days=365 * 100)


@dataclass(frozen=True, slots=True)
class Size(Quantity):
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


@dataclass(frozen=True, slots=True)
class LustreSize(Size):
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


@dataclass(frozen=True, slots=True)
class ThroughputPerTiB(Quantity):
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
                "MB/s alone would be the throughput of the whole file system",
                f"write the throughput of each TiB, such as '{cls.examples[0]}'",
            )
        value = cls.read(text, {"MB/s/TiB": Decimal(1)})
        if value != value.to_integral_value() or not 1 <= value <= 100_000:
            raise cls.error(text, "it is not a whole number between 1 and 100000")
        return cls(int(number))

    def __str__(self) -> str:
        return f"{self.mb_s_per_tib} MB/s/TiB"


@dataclass(frozen=True, slots=True)
class Duration(Quantity):
    """A length of time (`14 d`, `48 h`, `5 y`). A year is 365 days."""

    delta: timedelta

    noun: ClassVar[str] = "a duration"
    accepted: ClassVar[str] = "a number and one of s, min, h, d, w, y (365 d)"
    examples: ClassVar[tuple[str, ...]] = ("14 d", "48 h", "5 y")
    pattern: ClassVar[str] = rf"^\s*{NUMBER}\s*(s|min|h|d|w|y)\s*$"
    description: ClassVar[str] = "A length of time in s, min, h, d, w or y (365 days)."

    @classmethod
    def parse(cls, text: str) -> Self:
        """`14 d` -> 14 days, exact to the microsecond."""
        micros = cls.read(text, MICROSECONDS)
        if micros != micros.to_integral_value():
            raise cls.error(text, "it is finer than a microsecond")
        if micros == 0:
            raise cls.error(text, "it is zero")
        if micros > LONGEST_DURATION // timedelta(microseconds=1):
            raise cls.error(text, "it is longer than 100 years")
        return cls(timedelta(microseconds=int(micros)))

    def __str__(self) -> str:
        micros = self.delta // timedelta(microseconds=1)
        unit = next(
            unit for unit in ("d", "h", "min", "s") if micros % int(MICROSECONDS[unit]) == 0 or unit == "s"
        )
        return f"{plain(Decimal(micros) / MICROSECONDS[unit])} {unit}"


def _currency(kind: type[Quantity], text: str, currency: str) -> str:
    """USD, or an error: every price of the catalog is in USD and nothing here converts money."""
    if currency == "USD":
        return currency
    why = (
        f"'{currency}' is not USD, the currency of every price here"
        if currency
        else "the currency is missing"
    )
    raise kind.error(text, why)


@dataclass(frozen=True, slots=True)
class Money(Quantity):
    """An amount of money (`250000 USD`, `500k USD`, `2.5M USD`), exact; printed without k and M."""

    amount: Decimal
    currency: str

    noun: ClassVar[str] = "an amount of money"
    accepted: ClassVar[str] = "a number and USD (or k USD, M USD: thousands, millions)"
    examples: ClassVar[tuple[str, ...]] = ("250000 USD", "500k USD", "2.5M USD")
    pattern: ClassVar[str] = rf"^\s*{NUMBER}\s*[kM]?\s*USD\s*$"
    description: ClassVar[str] = "An amount of money in USD, k USD (thousand) or M USD (million)."

    @classmethod
    def parse(cls, text: str) -> Self:
        """`250000 USD`, `250k USD` -> the amount; at most cents, never negative."""
        number, unit = cls.split(text)
        if (thousands := THOUSANDS.get(unit[:1])) is not None:
            number, unit = number * thousands, unit[1:].lstrip(" \t")
        currency = _currency(cls, text, unit)
        if number != number.quantize(Decimal("0.01")):
            raise cls.error(text, "it is finer than a cent")
        return cls(number, currency)

    def __str__(self) -> str:
        return f"{plain(self.amount)} {self.currency}"


@dataclass(frozen=True, slots=True)
class Percent(Quantity):
    """A share in percent (`80%`)."""

    value: Decimal | int

    noun: ClassVar[str] = "a percentage"
    accepted: ClassVar[str] = "a number above 0 and up to 1000 with '%'"
    examples: ClassVar[tuple[str, ...]] = ("80%", "100%")
    pattern: ClassVar[str] = rf"^\s*{NUMBER}\s*%\s*$"
    description: ClassVar[str] = "A share in percent."

    @classmethod
    def parse(cls, text: str) -> Self:
        """`80%` -> 80."""
        value = cls.read(text, {"%": Decimal(1)})
        if not 0 < value <= 1000:
            raise cls.error(text, "it is not above 0 and at most 1000")
        return cls(value)

    def __str__(self) -> str:
        return f"{plain(Decimal(self.value))}%"


@dataclass(frozen=True, slots=True)
class Power(Quantity):
    """Electric power in kW (`40 kW`)."""

    kw: Decimal

    noun: ClassVar[str] = "an electric power"
    accepted: ClassVar[str] = "a number and one of W, kW, MW"
    examples: ClassVar[tuple[str, ...]] = ("40 kW",)
    pattern: ClassVar[str] = rf"^\s*{NUMBER}\s*(W|kW|MW)\s*$"
    description: ClassVar[str] = "Electric power in W, kW or MW."

    @classmethod
    def parse(cls, text: str) -> Self:
        """`40 kW` -> 40."""
        value = cls.read(text, KILOWATTS)
        if value == 0:
            raise cls.error(text, "it is zero")
        return cls(value)

    def __str__(self) -> str:
        return f"{plain(self.kw)} kW"


@dataclass(frozen=True, slots=True)
class EnergyPrice(Quantity):
    """Money for each kWh (`0.11 USD/kWh`)."""

    amount: Decimal
    currency: str

    noun: ClassVar[str] = "a price of energy"
    accepted: ClassVar[str] = "a number and USD/kWh (or USD/MWh)"
    examples: ClassVar[tuple[str, ...]] = ("0.11 USD/kWh",)
    pattern: ClassVar[str] = rf"^\s*{NUMBER}\s*USD\s*/\s*(kWh|MWh)\s*$"
    description: ClassVar[str] = "What a kWh costs, in USD."

    @classmethod
    def parse(cls, text: str) -> Self:
        """`0.11 USD/kWh` -> 0.11 for each kWh."""
        number, unit = cls.split(text)
        currency, slash, energy = (part.strip() for part in unit.partition("/"))
        _currency(cls, text, currency)
        if not slash or energy not in PER_KWH:
            raise cls.error(text, f"'{energy[:20]}' is not kWh or MWh" if energy else "'/kWh' is missing")
        return cls(number * PER_KWH[energy], currency)

    def __str__(self) -> str:
        return f"{plain(self.amount)} {self.currency}/kWh"


@dataclass(frozen=True, slots=True)
class HourlyPrice(Quantity):
    """Money for an hour of one node (`12.5 USD/h`)."""

    amount: Decimal
    currency: str

    noun: ClassVar[str] = "a price of an hour"
    accepted: ClassVar[str] = "a number and USD/h"
    examples: ClassVar[tuple[str, ...]] = ("12.5 USD/h",)
    pattern: ClassVar[str] = rf"^\s*{NUMBER}\s*USD\s*/\s*h\s*$"
    description: ClassVar[str] = "What an hour costs, in USD."

    @classmethod
    def parse(cls, text: str) -> Self:
        """`12.5 USD/h` -> 12.5 an hour; above zero, at most four decimals (as EC2 prices spot)."""
        number, unit = cls.split(text)
        currency, slash, hour = (part.strip() for part in unit.partition("/"))
        _currency(cls, text, currency)
        if not slash or hour != "h":
            raise cls.error(text, f"'{hour[:20]}' is not h" if hour else "'/h' is missing")
        if number == 0:
            raise cls.error(text, "it is zero")
        if number != number.quantize(Decimal("0.0001")):
            raise cls.error(text, "it has more than four decimals")
        return cls(number, currency)

    def __str__(self) -> str:
        return f"{plain(self.amount)} {self.currency}/h"


@dataclass(frozen=True, slots=True)
class When(Quantity):
    """A moment: relative (`in 14 d`) or fixed (ISO 8601 date, or time with its zone)."""

    text: str
    offset: timedelta | None = None
    at: datetime | None = None

    noun: ClassVar[str] = "a moment"
    accepted: ClassVar[str] = "a time to come, a date (00:00 UTC), or a date and time with its zone"
    examples: ClassVar[tuple[str, ...]] = ("in 14 d", "2031-05-01", "2031-05-01T11:30:00Z")
    pattern: ClassVar[str] = (
        rf"^\s*(in\s+{NUMBER}\s*(s|min|h|d|w|y)|[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}"
        r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?(\.[0-9]+)?\s*(Z|[+-][0-9]{2}:?[0-9]{2}))?)\s*$"
    )
    description: ClassVar[str] = (
        "A moment: 'in 14 d' (counted from when it is first acted on), an ISO 8601 date (00:00 UTC), or "
        "a date and time with its zone."
    )

    @classmethod
    def parse(cls, text: str) -> Self:
        """`in 14 d` -> an offset; a date or zoned time -> `at` in UTC. A time without zone is refused."""
        stripped = text.strip()
        if len(stripped) > 40:
            raise cls.error(text, "it is longer than 40 characters")
        if relative := re.fullmatch(r"in\s+(\S.*)", stripped):
            try:
                return cls(stripped, offset=Duration.parse(relative[1]).delta)
            except QuantityError as error:
                why = error.reason.partition(": ")[2]
                raise cls.error(text, why, "write a time to come, such as 'in 14 d'") from None
        if not re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", stripped):
            raise cls.error(text, "it starts with neither 'in' nor a date such as 2031-05-01")
        try:
            if len(stripped) == 10:
                return cls(stripped, at=datetime.combine(date.fromisoformat(stripped), time(), UTC))
            moment = datetime.fromisoformat(stripped)
            if moment.tzinfo is None:
                raise cls.error(
                    text, "the zone is missing", f"write '{stripped}Z' for UTC, or '+01:00' and the like"
                )
            if not re.fullmatch(cls.pattern, stripped, re.ASCII):
                raise cls.error(text, "it is neither a date nor a date and time with its zone")
            return cls(stripped, at=moment.astimezone(UTC))
        except QuantityError:
            raise
        except (ValueError, OverflowError) as error:
            raise cls.error(text, f"no such date or time ({error})") from None

    def __str__(self) -> str:
        return self.text
