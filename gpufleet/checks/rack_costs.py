"""Declared costs of racks are within what people pay: they make no room in the budget for the cloud."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal

from gpufleet.checks.rules import FieldFinding, Fleet, check

LONGEST_LIFETIME = dt.timedelta(days=10 * 365)
"""Twice the five years over which published comparisons write off GPU nodes."""

LOWEST_ENERGY_PRICE = Decimal("0.01")
"""USD per kWh: a tenth of the average industrial price in US data-centre markets (2026, EIA table 5.6.B)."""

LOWEST_PURCHASE = Decimal(10_000)
"""USD for a node of eight GPUs: below the price of one of its GPUs (28,000 USD for an H100 of 2026)."""


@check("rack-lifetime")
def rack_lifetime(fleet: Fleet) -> Iterator[FieldFinding]:
    """A lifetime beyond ten years makes racks look free."""
    for path, site in fleet.onprem():
        if site.ownership is not None and site.ownership.lifetime.delta > LONGEST_LIFETIME:
            yield FieldFinding(
                (*path, "ownership", "lifetime"),
                f"{site.ownership.lifetime} is longer than GPU nodes are used",
                f"write the years over which they are written off, {LONGEST_LIFETIME.days // 365} at most",
            )


@check("rack-purchase")
def rack_purchase(fleet: Fleet) -> Iterator[FieldFinding]:
    """A node of eight data-centre GPUs costs more than one of them. Without `ownership` it counts as paid."""
    for path, site in fleet.onprem():
        if site.ownership is not None and site.ownership.acquisition.amount < LOWEST_PURCHASE:
            yield FieldFinding(
                (*path, "ownership", "acquisition"),
                f"{site.ownership.acquisition} is not the price of a node with eight GPUs",
                "write what one node cost, or remove `ownership` if the nodes are paid for and do not count",
            )


@check("rack-energy-price")
def rack_energy_price(fleet: Fleet) -> Iterator[FieldFinding]:
    """Electricity for almost nothing makes racks look free."""
    for path, site in fleet.onprem():
        if site.power is not None and site.power.price.amount < LOWEST_ENERGY_PRICE:
            yield FieldFinding(
                (*path, "power", "price"),
                f"{site.power.price} is far below what data centres pay",
                f"write the price per kWh with all charges, {LOWEST_ENERGY_PRICE} USD/kWh or more",
            )


CHECKS = (rack_lifetime, rack_purchase, rack_energy_price)
