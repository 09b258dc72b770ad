"""What a rack site costs: electricity, and ownership where the fleet file declares it."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.plan.cost.ledger import MONTH, Ledger, fixed, hours_of, number, settle
from gpufleet.plan.models import CostLine, CostRange, OnPremSitePlan, UnknownCost
from gpufleet.spec.models import OnPremSite

RACKS = "racks"
"""Owner of a rack site's cost lines."""

EXPECTED_LOAD = Decimal("0.70")
"""Share of a node's maximum power that it draws on average.

The utilisation of a published five-year TCO comparison (aiinframap.com,
h100-vs-h200-vs-b200-tco, read 2026-11-21). Full load is the `high` end; no source was found for
what an idle node draws, so `low` is not below it.
"""

_LOAD_SOURCE = "load of 70 %: aiinframap.com h100-vs-h200-vs-b200-tco"


def price_racks(site: OnPremSite, planned: OnPremSitePlan, ledger: Ledger) -> None:
    """Add a rack site's electricity and, when declared, its monthly share of what it cost to buy."""
    nodes = len(site.nodes.hosts)
    _price_power(site, planned, nodes, ledger)
    ledger.leave_out(f"{site.site}: switches, staff and floor space, and power of anything but GPU nodes")
    if site.ownership is None:
        ledger.leave_out(f"{site.site}: what the nodes cost to buy (no `ownership` declared: sunk)")
        return
    months = settle(hours_of(site.ownership.lifetime.delta) / MONTH)
    price = site.ownership.acquisition.amount
    ledger.lines.append(
        CostLine(
            site=site.site,
            owner=RACKS,
            kind="ownership",
            what=f"{nodes} x {planned.system}, written off over {number(months)} months",
            monthly=fixed(settle(nodes * price / months)),
            basis=f"{nodes} x {number(price)} USD / {number(months)} months of 730 h",
            source="fleet file",
            date=None,
            tags=planned.tags,
        )
    )


def _price_power(site: OnPremSite, planned: OnPremSitePlan, nodes: int, ledger: Ledger) -> None:
    what = f"electricity of {nodes} x {planned.system}"
    kw = planned.power_kw_per_node
    if kw is None or site.power is None:
        reason = (
            "the site declares no `power` (pue and price of energy)"
            if site.power is None
            else f"the maximum power of {planned.system} is not known"
        )
        ledger.unknown.append(UnknownCost(site.site, RACKS, what, reason))
        return
    pue = Decimal(str(site.power.pue))
    full = nodes * kw * pue * MONTH * site.power.price.amount
    expected = full * EXPECTED_LOAD
    ledger.lines.append(
        CostLine(
            site=site.site,
            owner=RACKS,
            kind="power",
            what=what,
            monthly=CostRange(expected, expected, full),
            basis=(
                f"{nodes} x {number(kw)} kW x {number(EXPECTED_LOAD)} x PUE {number(pue)} x 730 h"
                f" x {number(site.power.price.amount)} USD/kWh"
            ),
            source=f"energy price: fleet file; power: catalog; {_LOAD_SOURCE}",
            date=None,
            tags=planned.tags,
            note="the highest is at full load",
        )
    )
