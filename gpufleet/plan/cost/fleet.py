"""Pricing a whole fleet."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from gpufleet.catalog import Catalog
from gpufleet.plan.cost import sums
from gpufleet.plan.cost.compute import price_node_group
from gpufleet.plan.cost.ledger import Ledger, fixed
from gpufleet.plan.cost.racks import price_racks
from gpufleet.plan.cost.services import price_site_services
from gpufleet.plan.cost.storage import note_bucket, price_lustre
from gpufleet.plan.models import CloudSitePlan, CostPlan, OnPremSitePlan
from gpufleet.spec.models import FleetSpec


def price_fleet(
    spec: FleetSpec, cloud: Sequence[CloudSitePlan], onprem: Sequence[OnPremSitePlan], catalog: Catalog
) -> CostPlan:
    """The monthly cost of a planned fleet: every line in the order of the fleet file, and its sums.

    Exact decimals throughout; whoever shows an amount rounds it, once.
    """
    ledger = Ledger()
    for site in cloud:
        for group in site.node_groups:
            price_node_group(group, site.region, catalog, ledger)
        for system in site.lustre:
            price_lustre(system, site.region, catalog, ledger)
        for bucket in site.buckets:
            note_bucket(bucket, site.region, catalog, ledger)
        price_site_services(site, catalog, ledger)
    for declared, planned in zip(spec.onprem, onprem, strict=True):
        price_racks(declared, planned, ledger)
    upfront = [line.upfront for line in ledger.lines if line.upfront is not None]
    nothing = not ledger.lines and not ledger.unknown
    return CostPlan(
        currency="USD",
        monthly=fixed(Decimal(0)) if nothing else sums.total(ledger.lines),
        upfront=sum(upfront, Decimal(0)),
        budget_monthly=spec.budget.monthly.amount,
        lines=tuple(ledger.lines),
        unknown=tuple(ledger.unknown),
        by_site=sums.by_site(ledger.lines),
        by_owner=sums.by_owner(ledger.lines),
        by_tag=sums.by_tag(ledger.lines),
        not_counted=tuple(ledger.not_counted),
    )
