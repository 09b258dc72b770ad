"""The cost of nodes by instance types and purchase options (on-demand, spot, or both)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from msgspec import Struct

from gpufleet.pricing.book import CostBook, PricedResource
from gpufleet.pricing.cost import Cost, Sizes
from gpufleet.pricing.disks import Disk, price_root_volumes
from gpufleet.pricing.rates import MONTH, Prices, Rate, number, pricing_of
from gpufleet.pricing.services import price_node_addresses

RESERVED = "odcr"


class Choice(Struct, frozen=True):
    """An instance type of a group, and its weight in units of capacity."""

    instance: str
    weight: int = 1


class Market(Struct, frozen=True):
    """The purchase options of nodes: `base` nodes and `percent` of the others are on-demand. The rest is
    spot, at most `spot_most` USD per hour and unit of capacity. `reserved` nodes are on-demand nodes in a
    reservation that has no cost line. With `falls_back`, nodes are on-demand ones where there is no spot.
    """

    base: int
    percent: int
    spot_most: Decimal | None = None
    reserved: bool = False
    falls_back: bool = False

    def on_demand(self, nodes: int) -> int:
        """Return the on-demand nodes of `nodes`. AWS rounds up."""
        above = max(0, nodes - self.base)
        return min(nodes, self.base) + -(-above * self.percent // 100)

    @property
    def name(self) -> str:
        """In words."""
        if self.reserved:
            return RESERVED
        if self.percent == 100:
            return "on-demand"
        if self.falls_back:
            return "spot, else on-demand"
        return "spot" if not self.base and not self.percent else "on-demand and spot"


ON_DEMAND = Market(0, 100)
SPOT = Market(0, 0)
SPOT_OR_ON_DEMAND = Market(0, 0, falls_back=True)
IN_RESERVATION = Market(0, 100, reserved=True)


class PricedGroup(Struct, frozen=True):
    """Nodes that scale together.

    `running` are the charged nodes, None if a reservation or block covers them. Volumes exist for `existing`
    nodes (more with a warm pool), for `hours` per month. `disks` returns those of one node, or raises
    `UnpricedError`. `addresses` are the public addresses of a node.
    """

    choices: Sequence[Choice]
    market: Market
    running: Sizes | None
    existing: Sizes
    disks: Callable[[], Sequence[Disk]]
    addresses: int = 0
    hours: Decimal = MONTH


def price_group(book: CostBook, thing: PricedResource, prices: Prices, group: PricedGroup) -> None:
    """Add the lines of a group: those of `price_launched`, and what a group leaves out."""
    price_launched(book, thing, prices, group)
    book.leave_out("nodes that run in parallel while a group replaces them")
    book.leave_out("detailed monitoring of nodes, by the metric")


def price_launched(book: CostBook, thing: PricedResource, prices: Prices, group: PricedGroup) -> None:
    """Add the lines of nodes, root volumes and public addresses."""
    running = group.running
    if running is not None:
        book.price(thing, lambda: price_nodes(prices, group.choices, running, group.market))
    if group.existing.maximum:
        book.price(thing, lambda: price_root_volumes(prices, group.disks, group.existing, group.hours))
        if group.addresses:
            addressed = running or group.existing
            book.price(thing, lambda: price_node_addresses(prices, group.addresses, addressed, group.hours))


def price_nodes(prices: Prices, choices: Sequence[Choice], sizes: Sizes, market: Market) -> Cost:
    """Return the monthly cost of nodes. Raises `UnpricedError` if a price is missing.

    With several types, the expected cost uses the first type, minimum and maximum cost the cheapest and the
    most expensive. With weights, `sizes` are units of capacity, and a group can exceed its maximum by a part
    of its largest node.
    """
    what = f"{sizes.expected} x {choices[0].instance}, {market.name}"
    heaviest = max(choice.weight for choice in choices)
    sizes = Sizes(sizes.minimum, sizes.expected, sizes.maximum + heaviest - 1 if sizes.maximum else 0)
    bought = market.on_demand(sizes.maximum)
    with pricing_of(what, "compute"):
        on_demand = [_rate(prices, each, market) for each in choices] if bought or market.falls_back else []
        spot = [_rate(prices, each, market, spot=True) for each in choices] if bought < sizes.maximum else []
    least = _least(on_demand), _least(spot)
    usual = (on_demand[0].expected if on_demand else Decimal(0), spot[0].expected if spot else Decimal(0))
    most = _most(on_demand), _most(spot)
    shown = [number(rate.expected) for rate in (*on_demand[:1], *spot[:1])]
    basis = f"{sizes.expected} x {choices[0].instance} x 730 h x {' and '.join(shown) or 0} USD/h"
    notes = []
    if market.reserved:
        notes.append("a reservation costs the on-demand price, used or not")
    if spot:
        notes.append(f"spot {number(least[1])} to {number(most[1])} USD/h, median {number(usual[1])}")
    return Cost(
        what,
        "compute",
        _amount(sizes.minimum, market, *least),
        _amount(sizes.expected, market, *usual),
        _amount(sizes.maximum, market, *((max(most), max(most)) if market.falls_back else most)),
        basis + sizes.span("nodes" if heaviest == 1 else "units"),
        (*on_demand, *spot),
        bought=market.name,
        notes=tuple(notes),
    )


def _rate(prices: Prices, choice: Choice, market: Market, *, spot: bool = False) -> Rate:
    rate = prices.node(choice.instance, "spot" if spot else "on-demand").divided(choice.weight)
    return rate.capped(market.spot_most) if spot else rate


def _least(rates: Sequence[Rate]) -> Decimal:
    return min((rate.low for rate in rates), default=Decimal(0))


def _most(rates: Sequence[Rate]) -> Decimal:
    return max((rate.high for rate in rates), default=Decimal(0))


def _amount(nodes: int, market: Market, steady: Decimal, spot: Decimal) -> Decimal:
    bought = market.on_demand(nodes)
    return bought * MONTH * steady + (nodes - bought) * MONTH * spot
