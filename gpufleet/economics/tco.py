"""Total cost of ownership of GPUs over years: rented by the hour, against bought and run.

Energy is kW x load x PUE x hours x price. Rent is paid for used hours only; what is bought is paid used or
not, except for the part of its energy that follows load.
"""

from __future__ import annotations

import math
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from gpufleet.errors import InputError

HOURS_PER_YEAR = 8760
MONTHS_PER_YEAR = 12


class OwnedCosts(Struct, frozen=True):
    """What owning costs, in USD. Rates are fractions of 1 (`0.05` is 5 %).

    `acquisition` is the purchase price of all nodes, `network_share` that of switches and cables in the price
    of the whole (0.15: nodes are 85 %). `power_kw` is drawn by all nodes at full load, `idle_share` of it
    without load. `financing` is the yearly interest on half of the purchase price (linear repayment),
    `residual` the share of the purchase price that a buyer pays at the end.
    """

    acquisition: float
    power_kw: float
    pue: float
    energy_price: float
    idle_share: float = 0.0
    network_share: float = 0.0
    residual: float = 0.0
    financing: float = 0.0
    support_yearly: float = 0.0
    colocation_yearly: float = 0.0
    staff_yearly: float = 0.0


class RentedCosts(Struct, frozen=True):
    """What renting costs, in USD per GPU-hour. `flexible` is paid for used hours only.

    `committed_share` of the GPUs are reserved at `committed`, and paid used or not; work runs on them first.
    """

    flexible: float
    committed_share: float = 0.0
    committed: float = 0.0

    def total(self, hours: float, utilization: float) -> float:
        """Return USD for GPUs with `hours` GPU-hours in all, of which a share is used."""
        # Without `max`, so that arrays of numpy can stand for the numbers (tco_risk).
        beyond = (utilization - self.committed_share) * (utilization > self.committed_share)
        return hours * (self.committed_share * self.committed + beyond * self.flexible)


class OwnershipCost(Struct, frozen=True):
    """The parts of a total over all years, in USD. `residual` is negative."""

    acquisition: float
    network: float
    financing: float
    energy: float
    support: float
    colocation: float
    staff: float
    residual: float

    @property
    def total(self) -> float:
        """The sum of all parts."""
        parts = (self.network, self.financing, self.energy, self.support, self.colocation, self.staff)
        return sum(parts, self.acquisition) + self.residual


class TcoResult(Struct, frozen=True):
    """Both totals, and where they are equal. `break_even_*` are None where the curves do not cross."""

    years: float
    utilization: float
    gpus: int
    gpu_hours: float
    cloud_total: float
    owned: OwnershipCost
    break_even_utilization: float | None
    break_even_month: float | None

    @property
    def owned_per_gpu_hour(self) -> float | None:
        """USD per used GPU-hour of owned GPUs; None if they are not used."""
        return self.owned.total / self.gpu_hours if self.gpu_hours else None


def compare(
    *, gpus: int, years: float, utilization: float, rented: RentedCosts, owned: OwnedCosts
) -> TcoResult:
    """Return the totals of renting and owning `gpus` GPUs over `years` at a utilization from 0 to 1.

    Raises InputError for values that make no sense, all of them together.
    """
    _check(gpus, years, utilization, rented, owned)
    hours = gpus * HOURS_PER_YEAR * years
    return TcoResult(
        years=years,
        utilization=utilization,
        gpus=gpus,
        gpu_hours=hours * utilization,
        cloud_total=rented.total(hours, utilization),
        owned=ownership(owned, years, utilization),
        break_even_utilization=_break_even_utilization(hours, rented, owned, years),
        break_even_month=_break_even_month(gpus, years, utilization, rented, owned),
    )


def ownership(owned: OwnedCosts, years: float, utilization: float) -> OwnershipCost:
    """Return the parts of what owning costs over `years`."""
    network = owned.acquisition * owned.network_share / (1 - owned.network_share)
    bought = owned.acquisition + network
    load = owned.idle_share + (1 - owned.idle_share) * utilization
    return OwnershipCost(
        acquisition=owned.acquisition,
        network=network,
        financing=bought / 2 * owned.financing * years,
        energy=owned.power_kw * load * owned.pue * HOURS_PER_YEAR * years * owned.energy_price,
        support=owned.support_yearly * years,
        colocation=owned.colocation_yearly * years,
        staff=owned.staff_yearly * years,
        residual=-owned.residual * bought,
    )


def _break_even_utilization(
    hours: float, rented: RentedCosts, owned: OwnedCosts, years: float
) -> float | None:
    """Return the lowest utilization from which on owning is not more expensive. None if there is none.

    The difference is linear up to the share that is reserved, and from there on.
    """

    def difference(share: float) -> float:
        return rented.total(hours, share) - ownership(owned, years, share).total

    edges = sorted({0.0, rented.committed_share, 1.0})
    for low, high in pairwise(edges):
        before, after = difference(low), difference(high)
        if before <= 0 < after or before < 0 <= after:
            return low + (high - low) * -before / (after - before)
    return None


def _break_even_month(
    gpus: int, years: float, utilization: float, rented: RentedCosts, owned: OwnedCosts
) -> float | None:
    """Return after how many months the rent that was saved has paid the purchase. None beyond `years`.

    The purchase is paid at the start; a residual value is received at the end, and does not count before.
    """
    monthly = rented.total(gpus * HOURS_PER_YEAR / MONTHS_PER_YEAR, utilization)
    year = ownership(replace(owned, residual=0.0), 1.0, utilization)
    running = (year.total - year.acquisition - year.network) / MONTHS_PER_YEAR
    if monthly <= running:
        return None
    found = (year.acquisition + year.network) / (monthly - running)
    return found if found <= years * MONTHS_PER_YEAR else None


def cash_over_time(
    *, gpus: int, years: float, utilization: float, rented: RentedCosts, owned: OwnedCosts, months: int
) -> list[tuple[float, float, float]]:
    """Return (month, rent paid, paid for what is owned) from month 0 to the end; the residual at the end."""
    yearly = gpus * HOURS_PER_YEAR
    found = []
    for step in range(months + 1):
        time = years * step / months
        paid = ownership(owned, time, utilization)
        back = paid.residual if step == months else 0.0
        rent = rented.total(yearly * time, utilization)
        found.append((time * MONTHS_PER_YEAR, rent, paid.total - paid.residual + back))
    return found


def _check(gpus: int, years: float, utilization: float, rented: RentedCosts, owned: OwnedCosts) -> None:
    wrong = [
        f"{name} is {value:g}; it must be {rule}"
        for name, value, rule, good in (
            ("gpus", gpus, "at least 1", gpus >= 1),
            ("years", years, "above 0 and at most 20", 0 < years <= 20),
            ("utilization", utilization, "from 0 to 1", 0 <= utilization <= 1),
            ("cloud price", rented.flexible, "above 0", rented.flexible > 0),
            ("reserved share", rented.committed_share, "from 0 to 1", 0 <= rented.committed_share <= 1),
            ("reserved price", rented.committed, "at least 0", rented.committed >= 0),
            ("acquisition", owned.acquisition, "at least 0", owned.acquisition >= 0),
            ("power", owned.power_kw, "above 0", owned.power_kw > 0),
            ("PUE", owned.pue, "from 1 to 3", 1 <= owned.pue <= 3),
            ("energy price", owned.energy_price, "at least 0", owned.energy_price >= 0),
            ("idle share", owned.idle_share, "from 0 to 1", 0 <= owned.idle_share <= 1),
            (
                "network share",
                owned.network_share,
                "at least 0 and below 0.9",
                0 <= owned.network_share < 0.9,
            ),
            ("residual value", owned.residual, "from 0 to 1", 0 <= owned.residual <= 1),
            ("financing", owned.financing, "from 0 to 1", 0 <= owned.financing <= 1),
            ("support", owned.support_yearly, "at least 0", owned.support_yearly >= 0),
            ("colocation", owned.colocation_yearly, "at least 0", owned.colocation_yearly >= 0),
            ("staff", owned.staff_yearly, "at least 0", owned.staff_yearly >= 0),
        )
        if not (math.isfinite(value) and good)
    ]
    if wrong:
        raise InputError("; ".join(wrong), remedy="correct these values")
