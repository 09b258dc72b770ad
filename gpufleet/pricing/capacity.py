"""Capacity that is paid for whether it is used or not: On-Demand Capacity Reservations and blocks."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final

from gpufleet.pricing.cost import Cost, Sizes
from gpufleet.pricing.nodes import IN_RESERVATION, Choice, price_nodes
from gpufleet.pricing.rates import MONTH, Prices, Rate, UnpricedError, number, pricing_of, settle

_CENT = Decimal("0.01")
BLOCK: Final = "capacity-block"


def price_reservation(prices: Prices, instance: str, nodes: int) -> Cost:
    """Return the cost of an On-Demand Capacity Reservation: the on-demand price, used or not."""
    return price_nodes(prices, [Choice(instance)], Sizes.fixed(nodes), IN_RESERVATION)


def price_block(
    prices: Prices,
    instance: str,
    nodes: int,
    hours: Decimal | None,
    *,
    fee: Decimal | None = None,
    paid: bool = False,
    extends: Decimal | None = None,
) -> Cost:
    """Return the cost of a Capacity Block: paid upfront, with a monthly share of at most 730 hours.

    `fee` is AWS's fee for the block, if known. A `paid` block exists: nothing is upfront, but its monthly
    share counts. An extension follows hours that are priced already (`extends`): of a month it has the rest.
    """
    what = f"{nodes} x {instance}, {BLOCK}" + (" extension" if extends is not None else "")
    rates: tuple[Rate, ...] = ()
    with pricing_of(what, "compute"):
        if fee is None:
            rates = (prices.node(instance, BLOCK),)
        if hours is None:
            raise UnpricedError("the `duration` of the block is not declared")
    share = min(MONTH - min(MONTH, extends or Decimal(0)), hours)
    ratio, part = Decimal(1), "block" if extends is None else "extension"
    if fee is None:
        ratio = rates[0].low / rates[0].expected
        # Fees are in whole cents.
        fee = (nodes * hours * rates[0].expected).quantize(_CENT, ROUND_HALF_EVEN)
        basis = f"{nodes} x {instance} x {number(share)} h x {number(rates[0].expected)} USD/h"
    else:
        basis = f"{number(share)} of {number(hours)} h of the fee of {number(fee)} USD"
    monthly = fee if share == hours else settle(fee * share / hours)
    return Cost(
        what,
        "compute",
        monthly if ratio == 1 else settle(monthly * ratio),
        monthly,
        monthly,
        basis,
        rates,
        upfront=Decimal(0) if paid else fee,
        bought=BLOCK,
        notes=(
            "already paid: the block exists" if paid else "paid upfront at purchase",
            f"the monthly share is {number(share)} of the {part}'s {number(hours)} h",
        ),
    )
