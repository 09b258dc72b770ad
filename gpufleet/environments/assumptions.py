"""Assumed costs of rack sites whose power is not known, so that a new budget includes them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_CEILING, Decimal

from msgspec import Struct

from gpufleet.catalog import Catalog
from gpufleet.plan.models import FleetPlan
from gpufleet.pricing import price_plan
from gpufleet.pricing.assume import key_for
from gpufleet.pricing.racks import price_power


class CostAssumption(Struct, frozen=True):
    """An amount for budget-unknown-cost, in USD a month."""

    name: str
    amount: Decimal
    why: str


def assumptions_for(plan: FleetPlan, catalog: Catalog) -> Iterator[CostAssumption]:
    """Yield the electricity of each rack site of unknown power: that of the system with the highest one."""
    strongest = max(catalog.systems.values(), key=lambda system: system.power_kw_max or 0)
    sites = {site.site: site for site in plan.onprem}
    for line in price_plan(plan, catalog).unknown:
        site = sites.get(line.site)
        if line.kind != "power" or site is None or site.power is None:
            continue
        nodes = sum(1 for host in site.hosts if host.role == "gpu")
        cost = price_power(site.system, nodes, strongest.power_kw_max, site.power.pue, site.power.usd_per_kwh)
        why = f"electricity as of {strongest.name}, at full load"
        yield CostAssumption(key_for(line), cost.maximum.to_integral_value(ROUND_CEILING), why)
