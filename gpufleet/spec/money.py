"""Amounts of money and prices; all of them are in USD."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import ClassVar, Self

from gpufleet.spec.parsing import NUMBER, Quantity, plain

THOUSANDS = {"k": 10**3, "M": 10**6}
PER_KWH = {"kWh": Decimal(1), "MWh": Decimal("0.001")}


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


def _rate(kind: type[Quantity], text: str, units: Mapping[str, Decimal]) -> tuple[Decimal, str]:
    """The amount for one of the unit whose factor is 1, and its currency."""
    number, unit = kind.split(text)
    currency, slash, per = (part.strip() for part in unit.partition("/"))
    _currency(kind, text, currency)
    if not slash or per not in units:
        expected = (
            f"'{per[:20]}' is not {' or '.join(units)}" if per else f"'/{next(iter(units))}' is missing"
        )
        raise kind.error(text, expected)
    return number * units[per], currency


class Money(Quantity, frozen=True):
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


class EnergyPrice(Quantity, frozen=True):
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
        return cls(*_rate(cls, text, PER_KWH))

    def __str__(self) -> str:
        return f"{plain(self.amount)} {self.currency}/kWh"


class HourlyPrice(Quantity, frozen=True):
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
        number, currency = _rate(cls, text, {"h": Decimal(1)})
        if number == 0:
            raise cls.error(text, "it is zero")
        if number != number.quantize(Decimal("0.0001")):
            raise cls.error(text, "it has more than four decimals")
        return cls(number, currency)

    def __str__(self) -> str:
        return f"{plain(self.amount)} {self.currency}/h"
