"""How far the result of `tco` moves with its inputs: one at a time (tornado), and all together.

The inputs are drawn from triangular distributions (lowest, expected, highest value), independently, with a
seed. Amounts are USD.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gpufleet.economics.tco import OwnedCosts, RentedCosts, TcoResult, cash_over_time, compare
from gpufleet.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

QUANTILES = (0.05, 0.5, 0.95)
MOST_DRAWS = 100_000

LIMITS = {"utilization": (0.0, 1.0), "pue": (1.0, 3.0), "residual": (0.0, 1.0), "network_share": (0.0, 0.89)}
"""What a varied input stays within."""


class TcoCase(Struct, frozen=True):
    """The inputs of `compare`."""

    gpus: int
    years: float
    utilization: float
    rented: RentedCosts
    owned: OwnedCosts

    def result(self) -> TcoResult:
        """Return both totals."""
        return compare(
            gpus=self.gpus,
            years=self.years,
            utilization=self.utilization,
            rented=self.rented,
            owned=self.owned,
        )

    def value(self, name: str) -> float:
        """Return an input by its name."""
        if name == "utilization":
            return self.utilization
        if name == "cloud_price":
            return self.rented.flexible
        if name == "reserved_price":
            return self.rented.committed
        return float(getattr(self.owned, name))

    def with_value(self, name: str, value: Any) -> TcoCase:
        """Return the case with another value of an input."""
        if name == "utilization":
            return replace(self, utilization=value)
        if name == "cloud_price":
            return replace(self, rented=replace(self.rented, flexible=value))
        if name == "reserved_price":
            return replace(self, rented=replace(self.rented, committed=value))
        return replace(self, owned=replace(self.owned, **{name: value}))


class InputRange(Struct, frozen=True):
    """The lowest and the highest value of an input."""

    name: str
    low: float
    high: float


class TornadoBar(Struct, frozen=True):
    """What an input does to the saving (rent - owned): at its lowest and its highest value."""

    name: str
    low: float
    high: float
    saving_at_low: float
    saving_at_high: float

    @property
    def swing(self) -> float:
        """The distance of both savings."""
        return abs(self.saving_at_high - self.saving_at_low)


class Band(Struct, frozen=True):
    """The 5 %, 50 % and 95 % quantiles of payments until a month."""

    month: float
    rented: tuple[float, float, float]
    owned: tuple[float, float, float]


class Risk(Struct, frozen=True):
    """The result of all inputs together. `owning_wins` is the share of draws in which owning costs less."""

    draws: int
    seed: int
    rented: tuple[float, float, float]
    owned: tuple[float, float, float]
    saving: tuple[float, float, float]
    owning_wins: float
    bands: tuple[Band, ...]


def ranges_of(
    case: TcoCase, spread: float, known: Sequence[InputRange] = ()
) -> tuple[tuple[InputRange, ...], tuple[str, ...]]:
    """Return a range for each input that is not 0, and the names of those that are only `spread` (0.2: 20 %).

    `known` are ranges with a source.
    """
    if not 0 < spread < 1:
        raise InputError(f"a spread of {spread:g} is not above 0 and below 1", remedy="write --spread 20%")
    names = [
        "utilization", "cloud_price", "reserved_price", "acquisition", "power_kw", "pue", "energy_price",
        "network_share", "residual", "financing", "support_yearly", "colocation_yearly", "staff_yearly",
    ]  # fmt: skip
    given = {item.name: item for item in known}
    found, spread_only = [], []
    for name in names:
        value = case.value(name)
        if name in given:
            found.append(given[name])
        elif value:
            least, most = LIMITS.get(name, (0.0, np.inf))
            low, high = max(value * (1 - spread), least), min(value * (1 + spread), most)
            if name == "pue":
                # What a hall adds to the power of its servers varies, not the servers' own share.
                low, high = 1 + (value - 1) * (1 - spread), min(1 + (value - 1) * (1 + spread), most)
            if high > low:
                found.append(InputRange(name, low, high))
                spread_only.append(name)
    return tuple(found), tuple(spread_only)


def tornado(case: TcoCase, ranges: Sequence[InputRange]) -> tuple[TornadoBar, ...]:
    """Return the bars of inputs that are varied one at a time, the longest first."""

    def saving(changed: TcoCase) -> float:
        found = changed.result()
        return found.cloud_total - found.owned.total

    bars = [
        TornadoBar(
            item.name,
            item.low,
            item.high,
            saving(case.with_value(item.name, item.low)),
            saving(case.with_value(item.name, item.high)),
        )
        for item in ranges
    ]
    return tuple(sorted(bars, key=lambda bar: (-bar.swing, bar.name)))


def simulate_risk(
    case: TcoCase, ranges: Sequence[InputRange], *, draws: int = 5_000, seed: int = 0, months: int = 24
) -> Risk:
    """Return the spread of both totals. The same seed gives the same result."""
    if not 1 <= draws <= MOST_DRAWS:
        raise InputError(f"{draws} draws: 1 to {MOST_DRAWS:,} are possible", remedy="write --draws 5000")
    random = np.random.default_rng(seed)
    drawn = {
        item.name: random.triangular(
            item.low, min(max(case.value(item.name), item.low), item.high), item.high, draws
        )
        for item in ranges
    }
    # The formulas of `tco` are arithmetic: arrays of draws stand for the numbers.
    changed = case
    for name, values in drawn.items():
        changed = changed.with_value(name, values)
    steps = cash_over_time(
        gpus=changed.gpus,
        years=changed.years,
        utilization=changed.utilization,
        rented=changed.rented,
        owned=changed.owned,
        months=months,
    )
    paid = [(month, np.broadcast_to(rent, draws), np.broadcast_to(own, draws)) for month, rent, own in steps]
    bands = tuple(Band(month, _quantiles(rent), _quantiles(own)) for month, rent, own in paid)
    _, rented, owned = paid[-1]
    saving = rented - owned
    return Risk(
        draws=draws,
        seed=seed,
        rented=_quantiles(rented),
        owned=_quantiles(owned),
        saving=_quantiles(saving),
        owning_wins=float(np.mean(saving > 0)),
        bands=bands,
    )


def _quantiles(values: NDArray[np.float64]) -> tuple[float, float, float]:
    low, median, high = np.quantile(values, QUANTILES)
    return float(low), float(median), float(high)
