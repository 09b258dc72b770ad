"""Quantities of the fleet file: text with a unit on the outside, one exact value on the inside."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Size:
    """An amount of storage in GiB (`24 TiB`, `1200 GiB`)."""

    gib: Decimal

    @classmethod
    def of_gib(cls, gib: int) -> Size:
        """The size of so many GiB."""
        return cls(Decimal(gib))


@dataclass(frozen=True, slots=True)
class ThroughputPerTiB:
    """FSx throughput in MB/s for each TiB stored (`250 MB/s/TiB`)."""

    mb_s_per_tib: int


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time (`14 d`, `48 h`, `5 y`)."""

    delta: timedelta


@dataclass(frozen=True, slots=True)
class Money:
    """An amount of money (`250000 USD`)."""

    amount: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class Percent:
    """A share in percent (`80%`)."""

    value: Decimal | int


@dataclass(frozen=True, slots=True)
class Power:
    """Electric power in kW (`40 kW`)."""

    kw: Decimal


@dataclass(frozen=True, slots=True)
class EnergyPrice:
    """Money for each kWh (`0.11 USD/kWh`)."""

    amount: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class When:
    """A moment: relative (`in 14 d`) or fixed (ISO 8601 date or time, UTC)."""

    text: str
    offset: timedelta | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class HostRange:
    """Hosts written as a range (`dgx[001-064]`), expanded in order."""

    text: str
    hosts: tuple[str, ...]
