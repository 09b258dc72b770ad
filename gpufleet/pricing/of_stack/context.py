"""The context of pricing a stack: prices, regions, owners, reservations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpufleet.catalog import Catalog
from gpufleet.plan.models import FleetPlan, NodeGroupPlan
from gpufleet.pricing.book import CostBook, Owner, PricedResource
from gpufleet.pricing.cost import Cost, Sizes
from gpufleet.pricing.models import Kind
from gpufleet.pricing.of_stack.owners import Owners
from gpufleet.pricing.rates import Prices, UnpricedError
from gpufleet.resources.resource import UNKNOWN, Resource
from gpufleet.resources.stack import Stack


@dataclass
class Pricing:
    """One run over one stack."""

    stack: Stack
    catalog: Catalog
    plan: FleetPlan | None
    default_region: str
    book: CostBook = field(default_factory=CostBook)
    schedules: dict[str, list[Resource]] | None = None
    """Schedules by the URN of the group that they scale, None until needed."""
    reserved: dict[str, Sizes] = field(default_factory=dict)
    """The free nodes of each reservation of the stack."""

    def __post_init__(self) -> None:
        self.owners = Owners(self.stack, self.plan)
        self.groups: dict[tuple[str, str], NodeGroupPlan] = (
            {(group.site, group.name): group for group in self.plan.node_groups} if self.plan else {}
        )

    def prices(self, resource: Resource) -> Prices:
        """Return the prices in the region of a resource: its `region`, its provider's, or the default.

        Raises `UnpricedError` if the region is not known.
        """
        inputs = resource.inputs if resource.inputs is not None else {}
        provider = resource.provider.props.get("region") if resource.provider is not None else None
        found = inputs.get("region")
        if found is None:
            output = resource.props.get("region")
            found = output if output is not UNKNOWN else None
        if found is None:
            found = provider if provider is not None else self.default_region
        if not isinstance(found, str) or not found.strip():
            raise UnpricedError("its region is not known")
        return Prices(self.catalog, found)

    def price(self, resource: Resource, compute: Callable[[], Cost], owner: Owner) -> None:
        """Add the line of a resource, with or without a price (see `CostBook.price`)."""
        self.book.price(priced_resource(resource, owner), compute)

    def unknown(self, resource: Resource, what: str, kind: Kind, reason: str, owner: Owner) -> None:
        """Add a line without a price."""
        self.book.unknown(priced_resource(resource, owner), what, kind, reason)


def priced_resource(resource: Resource, owner: Owner) -> PricedResource:
    """Return the resource for its cost lines."""
    return PricedResource(resource.type, resource.name, owner, resource.urn)
