"""The cost of a rack site: electricity, and what the fleet file declares of ownership and running it."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from gpufleet.pricing.cost import Cost
from gpufleet.pricing.rates import MONTH, UnpricedError, hours_of, number, pricing_of, settle

EXPECTED_LOAD = Decimal("0.70")
"""The average share of a node's maximum power.

The utilisation of a published five-year TCO comparison (aiinframap.com, h100-vs-h200-vs-b200-tco, read
2026-11-21). Full load is the maximum. No source was found for the power of an idle node, so the minimum
equals this value.
"""

_LOAD_SOURCE = "load of 70 %: aiinframap.com h100-vs-h200-vs-b200-tco"


def price_power(
    system: str, nodes: int, kw: Decimal | None, pue: Decimal | None, usd_per_kwh: Decimal | None
) -> Cost:
    """Return the cost of electricity of nodes with a maximum power of `kw` each."""
    what = f"electricity of {nodes} x {system}"
    with pricing_of(what, "power"):
        if pue is None or usd_per_kwh is None:
            raise UnpricedError("the site declares no `power` (pue and price of energy)")
        if kw is None:
            raise UnpricedError(f"the maximum power of {system} is not known")
        full = nodes * kw * pue * MONTH * usd_per_kwh
        basis = (
            f"{nodes} x {number(kw)} kW x {number(EXPECTED_LOAD)} x PUE {number(pue)} x 730 h"
            f" x {number(usd_per_kwh)} USD/kWh"
        )
        _refuse_nothing(full, basis)
    return Cost(
        what,
        "power",
        full * EXPECTED_LOAD,
        full * EXPECTED_LOAD,
        full,
        basis,
        notes=("the highest is at full load",),
        source=f"energy price: fleet file; power: catalog; {_LOAD_SOURCE}",
    )


def price_ownership(system: str, nodes: int, acquisition: Decimal, lifetime: timedelta) -> Cost:
    """Return the monthly share of the purchase price of nodes, `acquisition` USD each."""
    months = settle(hours_of(lifetime) / MONTH)
    what = f"{nodes} x {system}, written off over {number(months)} months"
    with pricing_of(what, "ownership"):
        amount = settle(nodes * acquisition / months)
        basis = f"{nodes} x {number(acquisition)} USD / {number(months)} months of 730 h"
        _refuse_nothing(amount, basis)
    return Cost(what, "ownership", amount, amount, amount, basis, source="fleet file")


def price_running(name: str, amount: Decimal) -> Cost:
    """Return a monthly cost that the fleet file declares, such as colocation."""
    with pricing_of(name, "running"):
        _refuse_nothing(amount, f"running_costs.{name}")
    return Cost(name, "running", amount, amount, amount, "per month", source="fleet file")


def _refuse_nothing(amount: Decimal, basis: str) -> None:
    """Raise `UnpricedError` for a cost of 0, which is an error in the fleet file."""
    if amount <= 0:
        raise UnpricedError(f"the cost from the fleet file is 0 USD ({basis}), which is invalid")
