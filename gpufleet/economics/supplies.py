"""A job on spot, spot with on-demand for a deadline, on-demand, a Capacity Block, and on own nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gpufleet.economics.simulation import Fallback, Job, Simulation, SpotMarket, simulate
from gpufleet.pricing.rates import Prices, Rate, UnpricedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpufleet.catalog import Catalog, InstanceType

Supply = Literal["spot", "spot with on-demand", "on-demand", "capacity block", "on-premises"]

BLOCK_SHARE = 0.99
"""The share of the simulated runs that a Capacity Block is long enough for."""


class Spread(Struct, frozen=True):
    """Mean, median and the 5 % and 95 % quantiles of the runs. Infinite where runs did not finish."""

    low: float
    median: float
    high: float
    mean: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Spread:
        """Return the spread of one value for each run."""
        # Of infinite values no other method has quantiles.
        low, median, high = np.quantile(values, (0.05, 0.5, 0.95), method="inverted_cdf")
        return cls(float(low), float(median), float(high), float(np.mean(values)))


class SupplyOutcome(Struct, frozen=True):
    """A job on one supply. `finish_h` is None if it cannot run there, with `reason`.

    `price` is the mean in USD per node-hour, `cost` USD of the job with its spread; None is unknown, with
    `reason`. `saving` is 1 - mean cost / mean cost on demand, and may be negative. `meets` is the share of
    the runs that finish by the deadline, None without one.
    """

    supply: Supply
    price: float | None
    source: str
    date: str | None
    finish_h: Spread | None = None
    cost: Spread | None = None
    meets: float | None = None
    saving: float | None = None
    interruptions: float = 0.0
    unfinished: float = 0.0
    fallback: float | None = None
    reason: str = ""
    note: str = ""


class Question(Struct, frozen=True):
    """What is simulated. `spot` has the price (or trace) and reclaims, `spot_source` where they are from.

    `failure_s` is the mean time between hardware failures of a node, on every supply. `onprem_price` is USD
    per node-hour.
    """

    job: Job
    spot: SpotMarket
    spot_source: str
    spot_date: str | None
    spot_reason: str
    failure_s: float | None
    deadline_s: float | None
    on_demand: Rate | None
    on_demand_reason: str
    onprem_price: float | None
    runs: int
    seed: int


def compare_supplies(
    question: Question, catalog: Catalog, item: InstanceType, region: str
) -> list[SupplyOutcome]:
    """Return the outcomes in the order of `Supply`, without fallback if there is no deadline."""
    found = list(_outcomes(question, catalog, item, region))
    reference = next(each for each in found if each.supply == "on-demand").cost
    return [
        replace(each, saving=1 - each.cost.mean / reference.mean)
        if each.cost is not None and reference is not None
        else each
        for each in found
    ]


def known_rate(catalog: Catalog, instance_type: str, region: str) -> tuple[Rate | None, str]:
    """Return the on-demand price of a region, or None and why; an estimate from other regions is none."""
    try:
        rate = Prices(catalog, region).node(instance_type, "on-demand")
    except UnpricedError as error:
        return None, str(error)
    if rate.estimated:
        return None, f"no on-demand price of {instance_type} in {region} is known"
    return rate, ""


def _outcomes(
    question: Question, catalog: Catalog, item: InstanceType, region: str
) -> Iterator[SupplyOutcome]:
    job, rate = question.job, question.on_demand
    hourly = None if rate is None else float(rate.expected)
    spot = replace(question.spot, failure_s=question.failure_s)
    yield _simulated(
        "spot", question, spot, question.spot_source, question.spot_date, reason=question.spot_reason
    )
    if question.deadline_s is not None:
        fallback = Fallback(hourly, question.deadline_s)
        reason = "; ".join(part for part in (question.spot_reason, question.on_demand_reason) if part)
        yield _simulated(
            "spot with on-demand", question, spot, question.spot_source, question.spot_date, fallback, reason
        )
    steady = SpotMarket(hourly, failure_s=question.failure_s)
    source, date = ("", None) if rate is None else (rate.source, rate.date)
    yield _simulated("on-demand", question, steady, source, date, reason=question.on_demand_reason)
    yield _block(
        question, catalog, item, region, simulate(job, steady, runs=question.runs, seed=question.seed)
    )
    owned = SpotMarket(question.onprem_price, failure_s=question.failure_s)
    reason = "" if question.onprem_price is not None else "no price is given; `gpufleet tco` computes it"
    yield _simulated(
        "on-premises", question, owned, "--onprem-price" if not reason else "", None, reason=reason
    )


def _simulated(
    supply: Supply,
    question: Question,
    market: SpotMarket,
    source: str,
    date: str | None,
    fallback: Fallback | None = None,
    reason: str = "",
) -> SupplyOutcome:
    found = simulate(question.job, market, runs=question.runs, seed=question.seed, fallback=fallback)
    price = market.price
    return SupplyOutcome(
        supply=supply,
        price=price if price is None or isinstance(price, int | float) else price.mean,
        source=source,
        date=date,
        finish_h=Spread.of(found.finish_s / 3600),
        cost=None if found.cost is None else Spread.of(found.cost),
        meets=None if question.deadline_s is None else found.meets(question.deadline_s),
        interruptions=float(np.mean(found.interruptions)),
        unfinished=found.unfinished,
        fallback=None if fallback is None else float(np.mean(found.fallback)),
        reason="" if found.cost is not None else reason,
    )


def _block(
    question: Question, catalog: Catalog, item: InstanceType, region: str, found: Simulation
) -> SupplyOutcome:
    """Return the outcome of the shortest Capacity Block that is long enough for nearly all runs."""
    rules = catalog.capacity_block_rules
    if "capacity-block" not in item.usage_classes:
        return SupplyOutcome(
            "capacity block", None, "", None, reason=f"{item.name} is not sold as Capacity Blocks"
        )
    if question.job.nodes > rules.max_instances_per_block:
        most = rules.max_instances_per_block
        return SupplyOutcome("capacity block", None, "", None, reason=f"a block has at most {most} instances")
    # The instances are terminated before the end.
    lost_s = rules.termination_starts_before_end_min * 60
    needed = float(np.quantile(found.finish_s, BLOCK_SHARE, method="inverted_cdf")) + lost_s
    first = math.ceil(needed / 86_400) if math.isfinite(needed) else rules.weekly_steps_up_to_days + 1
    days = next((n for n in range(first, rules.weekly_steps_up_to_days + 1) if rules.allows_days(n)), None)
    if days is None:
        most = rules.weekly_steps_up_to_days
        return SupplyOutcome("capacity block", None, "", None, reason=f"a block lasts at most {most} days")
    note = f"{days} days, paid upfront, whenever it starts"
    finish = Spread.of(found.finish_s / 3600)
    meets = None if question.deadline_s is None else found.meets(question.deadline_s)
    interruptions = float(np.mean(found.interruptions))
    try:
        rate = Prices(catalog, region).node(item.name, "capacity-block")
    except UnpricedError as error:
        return SupplyOutcome(
            "capacity block", None, "", None, finish, None, meets, None, interruptions,
            reason=str(error), note=note,
        )  # fmt: skip
    hourly = float(rate.expected)
    cost = hourly * days * 24 * question.job.nodes
    note = "; ".join(part for part in (note, rate.note) if part)
    return SupplyOutcome(
        "capacity block", hourly, rate.source, rate.date, finish, Spread(cost, cost, cost, cost), meets, None,
        interruptions, note=note,
    )  # fmt: skip
