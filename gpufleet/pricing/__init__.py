"""The only prices: what a plan costs a month, and what the resources of a Pulumi stack cost.

Each kind of thing has one function from typed inputs to a cost with its range, source and date
(`nodes`, `disks`, `capacity`, `services`, `lustre`, `racks`). `of_plan` and `of_stack` read such inputs
out of a plan and out of resources. A resource that no fleet file mentions counts as well, and what
has no price is listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpufleet.pricing.models import Amount, CostLine, FleetCost

if TYPE_CHECKING:
    from gpufleet.catalog import Catalog
    from gpufleet.plan.models import FleetPlan
    from gpufleet.resources.stack import Stack

__all__ = ["Amount", "CostLine", "FleetCost", "price_plan", "price_stack"]


def price_plan(plan: FleetPlan, catalog: Catalog) -> FleetCost:
    """The cost of everything in a plan."""
    from gpufleet.pricing.of_plan import price_plan as price

    return price(plan, catalog)


def price_stack(
    stack: Stack, catalog: Catalog, plan: FleetPlan | None = None, *, default_region: str = ""
) -> FleetCost:
    """The cost of every resource of the stack, and of the racks of the plan.

    `default_region` is where resources are whose provider names no region. What the plan's fleet file
    assumes for resources without a price counts, and such lines say so.
    """
    # The stack's resources and prices import this package's models.
    from gpufleet.pricing.of_stack import price

    return price(stack, catalog, plan, default_region)
