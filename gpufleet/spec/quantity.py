"""Quantities of the fleet file: text with a unit on the outside, one exact value on the inside."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import ClassVar, Self

from gpufleet.spec.hosts import HostList, HostRange
from gpufleet.spec.money import EnergyPrice, HourlyPrice, Money
from gpufleet.spec.parsing import NUMBER, Quantity, QuantityError, plain
from gpufleet.spec.sizes import LustreSize, Size, ThroughputPerTiB

__all__ = [
    "Duration",
    "EnergyPrice",
    "HostList",
    "HostRange",
    "HourlyPrice",
    "LustreSize",
    "Moment",
    "Money",
    "Percent",
    "Power",
    "Quantity",
    "QuantityError",
    "Size",
    "ThroughputPerTiB",
]

MICROSECONDS = {
    "s": Decimal(10**6),
    "min": Decimal(60 * 10**6),
    "h": Decimal(3600 * 10**6),
    "d": Decimal(86_400 * 10**6),
    "w": Decimal(7 * 86_400 * 10**6),
    "y": Decimal(365 * 86_400 * 10**6),
}
KILOWATTS = {"W": Decimal("0.001"), "kW": Decimal(1), "MW": Decimal(1000)}
LONGEST_DURATION = timedelta(days=365 * 100)


class Duration(Quantity, frozen=True):
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


class Percent(Quantity, frozen=True):
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


class Power(Quantity, frozen=True):
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


class Moment(Quantity, frozen=True):
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

    def after(self, now: datetime) -> timedelta:
        """Return the time from `now` to the moment, negative if it has passed."""
        return self.at - now if self.at is not None else self.offset or timedelta()

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
