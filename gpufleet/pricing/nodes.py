"""What nodes cost: so many of some instance types, bought on demand, as spot, or in parts as each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from gpufleet.plan.cost.compute import capped
from gpufleet.plan.cost.ledger import MONTH, Rate, number, settle
from gpufleet.pricing.context import Cost, Pricing, Sizes
from gpufleet.pricing.inputs import UnpricedError


@dataclass(frozen=True, slots=True)
class Choice:
    """An instance type that nodes may be of, and how many units of capacity one counts as."""

    instance: str
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Market:
    """How many nodes are bought on demand: `base` of them, and `percent` of those above. The rest is spot, at
    `spot_most` USD an hour for a unit of capacity at most.
    """

    base: int
    percent: int
    spot_most: Decimal | None = None

    def on_demand(self, nodes: int) -> int:
        """How many of so many nodes are on-demand ones; AWS rounds in favour of these."""
        above = max(0, nodes - self.base)
        return min(nodes, self.base) + -(-above * self.percent // 100)

    @property
    def name(self) -> str:
        """In words."""
        if self.percent == 100:
            return "on-demand"
        return "spot" if not self.base and not self.percent else "on-demand and spot"


ON_DEMAND = Market(0, 100)
SPOT = Market(0, 0)


def price_nodes(
    pricing: Pricing, region: str, choices: Sequence[Choice], sizes: Sizes, market: Market
) -> tuple[str, Cost]:
    """What the nodes are and what they cost a month. Or `UnpricedError`, where any price is missing.

    Of several types, the expected cost is at the first one's price (the one asked for first), the
    least and the most at the cheapest and the dearest. With weights, `sizes` are units of capacity,
    and a group may exceed its maximum by what is left of its largest node.
    """
    if not choices:
        raise UnpricedError("no instance type is declared")
    heaviest = max(choice.weight for choice in choices)
    sizes = Sizes(sizes.minimum, sizes.expected, sizes.maximum + heaviest - 1 if sizes.maximum else 0)
    zero = [_NO_RATE]
    bought = market.on_demand(sizes.maximum)
    steady = _rates(pricing, region, choices, "on-demand") if bought else zero
    spot = _rates(pricing, region, choices, "spot", market.spot_most) if bought < sizes.maximum else zero
    least = min(rate.low for rate in steady), min(rate.low for rate in spot)
    usual = steady[0].expected, spot[0].expected
    most = max(rate.high for rate in steady), max(rate.high for rate in spot)
    unit = "nodes" if heaviest == 1 else "units"
    prices = [rate.expected for rate in (steady[0], spot[0]) if rate is not _NO_RATE]
    what = f"{sizes.expected} x {choices[0].instance}, {market.name}"
    basis = (
        f"{what} x 730 h x {' and '.join(number(price) for price in prices)} USD/h;"
        f" {sizes.minimum} to {sizes.maximum} {unit}"
    )
    rates = tuple(rate for rate in (*steady, *spot) if rate is not _NO_RATE)
    return what, Cost(
        _amount(sizes.minimum, market, *least),
        _amount(sizes.expected, market, *usual),
        _amount(sizes.maximum, market, *most),
        basis,
        rates,
    )


_NO_RATE = Rate(Decimal(0), Decimal(0), Decimal(0), "", None)


def _rates(
    pricing: Pricing, region: str, choices: Sequence[Choice], kind: str, most: Decimal | None = None
) -> list[Rate]:
    found = []
    for choice in choices:
        rate = pricing.node_rate(choice.instance, region, "spot" if kind == "spot" else "on-demand")
        if choice.weight != 1:
            weight = Decimal(choice.weight)
            low, expected, high = (settle(each / weight) for each in (rate.low, rate.expected, rate.high))
            rate = Rate(low, expected, high, rate.source, rate.date, rate.note)
        found.append(capped(rate, most) or rate)
    return found


def _amount(nodes: int, market: Market, steady: Decimal, spot: Decimal) -> Decimal:
    bought = market.on_demand(nodes)
    return bought * MONTH * steady + (nodes - bought) * MONTH * spot
