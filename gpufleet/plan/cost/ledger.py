"""Collecting cost lines, unknown costs and what is not counted, without ever making an unknown a 0."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import ROUND_HALF_EVEN, Decimal

from gpufleet.catalog import Price
from gpufleet.plan.models import HOURS_PER_MONTH, CostLine, CostRange, UnknownCost

MONTH = Decimal(HOURS_PER_MONTH)

_EXACT = Decimal("0.000001")


@dataclass(slots=True)
class Ledger:
    """What pricing has found so far, in the order of the fleet file."""

    lines: list[CostLine] = field(default_factory=list)
    unknown: list[UnknownCost] = field(default_factory=list)
    not_counted: list[str] = field(default_factory=list)

    def leave_out(self, text: str) -> None:
        """Say once that something which costs money is not counted."""
        if text not in self.not_counted:
            self.not_counted.append(text)


@dataclass(frozen=True, slots=True)
class Rate:
    """A known price of one unit (an instance-hour, a GB-month), with where it was read and when.

    `expected` is what is paid for most of the time, `low` and `high` the cheapest and dearest read.
    """

    low: Decimal
    expected: Decimal
    high: Decimal
    source: str
    date: str | None
    note: str = ""

    @classmethod
    def of(cls, price: Price) -> Rate | None:
        """The rate of a catalog price; None when nobody published one that was read."""
        if price.amount is None:
            return None
        date = price.date.isoformat() if price.date is not None else None
        return cls(price.amount, price.amount, price.amount, price.source, date, price.note)


def missing(price: Price) -> str:
    """Why an unknown price is unknown, for people."""
    return price.note or "no price was read"


def fixed(amount: Decimal) -> CostRange:
    """A cost that does not vary."""
    return CostRange(amount, amount, amount)


def hours_of(length: timedelta) -> Decimal:
    """A length of time in hours, exact for whole seconds in steps of 36."""
    return settle(Decimal(length // timedelta(microseconds=1)) / Decimal(3_600_000_000))


def settle(amount: Decimal) -> Decimal:
    """The result of a division, at a millionth: sums of such amounts stay exact in any order."""
    return amount.quantize(_EXACT, ROUND_HALF_EVEN)


def number(amount: Decimal) -> str:
    """A number for a basis text: no exponent and no trailing zeros."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def joined(texts: Iterable[str]) -> str:
    """Distinct texts, in order, as one."""
    return "; ".join(dict.fromkeys(text for text in texts if text))
