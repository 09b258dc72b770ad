"""What an hour of a node costs that Slurm launches when jobs need it."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.catalog import Catalog
from gpufleet.plan.models import CloudSitePlan, FleetPlan
from gpufleet.pricing.of_plan import price_plan
from gpufleet.pricing.rates import MONTH, settle
from gpufleet.resources import types


def node_hours(plan: FleetPlan, catalog: Catalog, site: CloudSitePlan) -> dict[str, Decimal | None]:
    """Return the upper end in USD for each node group of a site with Slurm; None without a known price.

    A node in a reservation or Capacity Block costs only its volumes: the rest is paid whether it runs or not.
    """
    lines = [line for line in price_plan(plan, catalog).lines if line.site == site.site]
    found: dict[str, Decimal | None] = {}
    for group in site.node_groups:
        amounts = [
            line.maximum for line in lines if (line.type, line.owner) == (types.LAUNCHED_NODES, group.name)
        ]
        known = [each for each in amounts if each is not None]
        most = group.capacity.max * MONTH
        found[group.name] = settle(sum(known, Decimal(0)) / most) if len(known) == len(amounts) else None
    return found
