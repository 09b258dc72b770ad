"""What the resources of a Pulumi stack cost a month: priced one by one from the catalog.

`gpufleet.plan.cost` prices a fleet file. This package prices what a program really registers, so a
resource that no fleet file mentions counts as well, and what has no price is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpufleet.pricing.assume import Assumptions
from gpufleet.pricing.models import ResourceCost, StackCost

if TYPE_CHECKING:
    from gpufleet.catalog import Catalog
    from gpufleet.plan.models import FleetPlan
    from gpufleet.resources.stack import Stack

__all__ = ["Assumptions", "ResourceCost", "StackCost", "price_stack"]


def price_stack(
    stack: Stack,
    catalog: Catalog,
    plan: FleetPlan | None = None,
    *,
    default_region: str = "",
    assumptions: Assumptions | None = None,
) -> StackCost:
    """The cost of every resource of the stack, and of the racks of the plan.

    `default_region` is where resources are whose provider names no region. `assumptions` are amounts
    for resources without a price, by name; such lines say so.
    """
    # The stack's resources and prices import this package's models.
    from gpufleet.pricing.stack import price

    return price(stack, catalog, plan, default_region, assumptions or {})
