"""The monthly cost of a plan, and of the resources of a Pulumi stack.

Each kind of resource has one pricing function from typed inputs to a cost with range, source and date
(`nodes`, `disks`, `capacity`, `services`, `lustre`, `racks`). `of_plan` and `of_stack` read these inputs from
a plan and from resources. Resources that are not in a fleet file count too, and resources without a price are
listed.
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
    """Return the cost of a plan."""
    from gpufleet.pricing.of_plan import price_plan as price

    return price(plan, catalog)


def price_stack(
    stack: Stack, catalog: Catalog, plan: FleetPlan | None = None, *, default_region: str = ""
) -> FleetCost:
    """Return the cost of all resources of the stack, and of the racks of the plan.

    `default_region` is the region of resources whose provider has none. Amounts that the fleet file assumes
    for resources without a price are included, and their lines are marked as assumed.
    """
    # The stack's resources and prices import this package's models.
    from gpufleet.pricing.of_stack import price

    return price(stack, catalog, plan, default_region)
