"""What pricing one stack knows and collects: prices, where a resource is, whose it is, the lines so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from gpufleet.catalog import Catalog
from gpufleet.plan.cost.compute import instance_rate
from gpufleet.plan.cost.ledger import Rate, joined, missing
from gpufleet.plan.models import CapacityKind, FleetPlan, NodeGroupPlan
from gpufleet.pricing.inputs import UnpricedError
from gpufleet.pricing.models import Kind, ResourceCost
from gpufleet.pricing.owners import Owner, Owners
from gpufleet.resources.resource import UNKNOWN, Resource
from gpufleet.resources.stack import Stack


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many there are at the least, as asked for, and at the most."""

    minimum: int
    expected: int
    maximum: int

    def least(self, floor: int) -> Sizes:
        """The sizes, none below `floor`."""
        return Sizes(max(self.minimum, floor), max(self.expected, floor), max(self.maximum, floor))

    def without(self, others: Sizes) -> Sizes:
        """The sizes less others, never below zero."""
        return Sizes(
            max(0, self.minimum - others.minimum),
            max(0, self.expected - others.expected),
            max(0, self.maximum - others.maximum),
        )

    def within(self, most: Sizes) -> Sizes:
        """The sizes, none above `most`."""
        return Sizes(
            min(self.minimum, most.minimum),
            min(self.expected, most.expected),
            min(self.maximum, most.maximum),
        )


ONE = Sizes(1, 1, 1)


@dataclass(frozen=True, slots=True)
class Cost:
    """Three amounts a month, and the prices they were computed from."""

    minimum: Decimal
    expected: Decimal
    maximum: Decimal
    basis: str
    rates: tuple[Rate, ...]


@dataclass
class Pricing:
    """One run over one stack."""

    stack: Stack
    catalog: Catalog
    plan: FleetPlan | None
    default_region: str
    lines: list[ResourceCost] = field(default_factory=list)
    not_counted: dict[str, None] = field(default_factory=dict)
    schedules: dict[str, list[Resource]] | None = None
    """Schedules by the URN of the group that they scale; None until somebody asks."""
    reserved: dict[str, Sizes] = field(default_factory=dict)
    """Nodes that each reservation of the stack still has room for."""

    def __post_init__(self) -> None:
        self.owners = Owners(self.stack, self.plan)
        self.groups: dict[tuple[str, str], NodeGroupPlan] = (
            {(group.site, group.name): group for group in self.plan.node_groups} if self.plan else {}
        )

    # -- what is known

    def region(self, resource: Resource) -> str:
        """Where a resource is: by its own `region`, its provider's or the default. Or `UnpricedError`."""
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
        return found

    def node_rate(self, instance: str, region: str, kind: CapacityKind) -> Rate:
        """The price of a node of a type, by the way it is bought. Or `UnpricedError`."""
        if instance not in self.catalog.instances:
            raise UnpricedError(f"{instance} is not in the catalog")
        rate = instance_rate(self.catalog, instance, region, kind)
        if rate is None:
            if kind == "spot":
                raise UnpricedError(f"no spot price of {instance} was seen in {region}")
            price = (
                self.catalog.capacity_block(instance, region)
                if kind == "capacity-block"
                else self.catalog.on_demand(instance, region)
            )
            raise UnpricedError(missing(price))
        return self._above_zero(rate, f"{instance}, {kind}, in {region}")

    def service_rate(self, key: str, region: str) -> Rate:
        """The price of a service. Or `UnpricedError`."""
        price = self.catalog.service_price(key, region)
        rate = Rate.of(price)
        if rate is None:
            raise UnpricedError(missing(price))
        return self._above_zero(rate, f"{self.catalog.services[key].title} in {region}")

    @staticmethod
    def _above_zero(rate: Rate, what: str) -> Rate:
        if min(rate.low, rate.expected, rate.high) <= 0:
            raise UnpricedError(f"the catalog has a price of 0 for {what}, which cannot be")
        return rate

    # -- what is found

    def add(
        self,
        resource: Resource,
        what: str,
        kind: Kind,
        cost: Cost,
        owner: Owner,
        upfront: Decimal = Decimal(0),
        bought: str = "",
    ) -> None:
        """A line with a price; `bought` is the purchase option of nodes."""
        dates = [rate.date for rate in cost.rates]
        self.lines.append(
            ResourceCost(
                urn=resource.urn,
                type=resource.type,
                name=resource.name,
                what=what,
                kind=kind,
                minimum=cost.minimum,
                expected=cost.expected,
                maximum=cost.maximum,
                upfront=upfront,
                site=owner.site,
                owner=owner.owner,
                team=owner.team,
                basis=cost.basis,
                source=joined(rate.source for rate in cost.rates),
                date=oldest(dates),
                bought=bought,
            )
        )

    def unknown(self, resource: Resource, what: str, kind: Kind, reason: str, owner: Owner) -> None:
        """A line without a price."""
        self.lines.append(
            ResourceCost(
                urn=resource.urn,
                type=resource.type,
                name=resource.name,
                what=what,
                kind=kind,
                minimum=None,
                expected=None,
                maximum=None,
                site=owner.site,
                owner=owner.owner,
                team=owner.team,
                reason=reason,
            )
        )

    def leave_out(self, text: str) -> None:
        """Say once that something is paid by use, and not counted."""
        self.not_counted.setdefault(text)


def oldest(dates: Iterable[str | None]) -> str | None:
    """The oldest of dates; None where one is not dated, or where there is none."""
    found = list(dates)
    known = [date for date in found if date is not None]
    return min(known) if known and len(known) == len(found) else None


def steady(amount: Decimal, basis: str, *rates: Rate) -> Cost:
    """A cost that does not scale."""
    return Cost(amount, amount, amount, basis, rates)
