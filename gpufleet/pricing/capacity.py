"""Capacity that is paid for whether nodes run in it or not: On-Demand Capacity Reservations and blocks."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final

from gpufleet.pricing.cost import Cost, Sizes
from gpufleet.pricing.nodes import IN_RESERVATION, Choice, price_nodes
from gpufleet.pricing.rates import MONTH, Prices, Rate, UnpricedError, number, pricing_of, settle

_CENT = Decimal("0.01")
BLOCK: Final = "capacity-block"


def price_reservation(prices: Prices, instance: str, nodes: int) -> Cost:
    """An On-Demand Capacity Reservation: the on-demand price, used or not."""
    return price_nodes(prices, [Choice(instance)], Sizes.fixed(nodes), IN_RESERVATION)


def price_block(
    prices: Prices,
    instance: str,
    nodes: int,
    hours: Decimal | None,
    *,
    fee: Decimal | None = None,
    paid: bool = False,
) -> Cost:
    """A Capacity Block: all of it is paid when it is bought, and a month's share is at most 730 hours.

    `fee` is what AWS asked for the whole block, where that is known. A `paid` block exists already:
    nothing is upfront, and its monthly share counts all the same.
    """
    what = f"{nodes} x {instance}, {BLOCK}"
    rates: tuple[Rate, ...] = ()
    with pricing_of(what, "compute"):
        if fee is None:
            rates = (prices.node(instance, BLOCK),)
        if hours is None:
            raise UnpricedError("the block's length is not declared (`duration`)")
    share = min(MONTH, hours)
    if fee is None:
        # Fees are asked in whole cents.
        fee = (nodes * hours * rates[0].expected).quantize(_CENT, ROUND_HALF_EVEN)
        basis = f"{nodes} x {instance} x {number(share)} h x {number(rates[0].expected)} USD/h"
    else:
        basis = f"{number(share)} of {number(hours)} h of the fee of {number(fee)} USD"
    monthly = fee if share == hours else settle(fee * share / hours)
    return Cost(
        what,
        "compute",
        monthly,
        monthly,
        monthly,
        basis,
        rates,
        upfront=Decimal(0) if paid else fee,
        bought=BLOCK,
        notes=(
            "paid before: the block exists already"
            if paid
            else "all of it is paid upfront when it is bought",
            f"a month's share is {number(share)} of the block's {number(hours)} h",
        ),
    )
