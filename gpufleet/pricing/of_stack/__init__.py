"""The cost of a stack's resources by the table of types, then racks, then assumed amounts."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.catalog import Catalog
from gpufleet.plan.models import FleetPlan
from gpufleet.plan.names import CONTROL_PLANE, NETWORK
from gpufleet.pricing import by_use
from gpufleet.pricing.assume import assume
from gpufleet.pricing.models import FleetCost, Kind
from gpufleet.pricing.of_plan import price_rack_sites
from gpufleet.pricing.of_stack.context import Pricing
from gpufleet.pricing.of_stack.objects import charged
from gpufleet.pricing.of_stack.table import BY_USE, FREE, FREE_MODULES, HARMLESS_PACKAGES, PRICED
from gpufleet.pricing.rates import UnpricedError
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack

_OWNERS: Mapping[Kind, str] = {"network": NETWORK, "control-plane": CONTROL_PLANE}


def price(stack: Stack, catalog: Catalog, plan: FleetPlan | None, default_region: str) -> FleetCost:
    """See `gpufleet.pricing.price_stack`."""
    pricing = Pricing(stack, catalog, plan, default_region)
    # Programs register concurrently: without an order lines would change places between two runs.
    for resource in sorted(stack, key=lambda each: each.urn):
        _price(pricing, resource)
    if pricing.book.lines:
        pricing.book.leave_out(by_use.TRAFFIC)
    if plan is not None:
        price_rack_sites(plan, pricing.book)
    return pricing.book.cost(assume(pricing.book.lines, plan.budget.assume if plan is not None else {}))


def _price(pricing: Pricing, resource: Resource) -> None:
    kind = resource.type
    priced = PRICED.get(kind)
    if priced is not None:
        before = len(pricing.book.lines)
        try:
            priced[1](pricing, resource)
        except UnpricedError as reason:
            _no_price(pricing, resource, before, str(reason))
        except (TypeError, ValueError, AttributeError, LookupError) as error:
            # Inputs that the provider will reject.
            _no_price(pricing, resource, before, f"its inputs cannot be read ({type(error).__name__})")
        return
    if kind in FREE or kind.startswith(tuple(FREE_MODULES)):
        return
    used = BY_USE.get(kind)
    if used is not None:
        pricing.book.leave_out(used)
        return
    elsewhere = _elsewhere(resource)
    if elsewhere:
        pricing.unknown(resource, _named(kind), "service", elsewhere, pricing.owners.of(resource))


def _no_price(pricing: Pricing, resource: Resource, before: int, reason: str) -> None:
    # A partial price could be mistaken for the full one.
    del pricing.book.lines[before:]
    kind = PRICED[resource.type][0]
    owner = pricing.owners.of(resource, default=_OWNERS.get(kind, ""))
    pricing.unknown(resource, _named(resource.type), kind, reason, owner)


def _elsewhere(resource: Resource) -> str:
    """Return the reason why a type outside of the table has no price, empty if it costs nothing."""
    kind = resource.type
    package = kind.split(":", 1)[0]
    if package == "aws":
        return f"no price is known for resources of type {kind}"
    if package in HARMLESS_PACKAGES:
        return charged(resource) if package == "kubernetes" else ""
    # A component has no provider and no cost of its own.
    return (
        f"no price is known for resources of the package {package}" if resource.provider is not None else ""
    )


def _named(kind: str) -> str:
    return kind.rsplit(":", 1)[-1]
