"""Pricing a whole stack: each resource by the table of types, then the racks, then what is assumed."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.catalog import Catalog
from gpufleet.plan.cost.services import CONTROL_PLANE, NETWORK
from gpufleet.plan.models import FleetPlan
from gpufleet.pricing.assume import Assumptions, assume
from gpufleet.pricing.context import Pricing
from gpufleet.pricing.inputs import UnpricedError
from gpufleet.pricing.models import Kind, ResourceCost, StackCost
from gpufleet.pricing.objects import charged
from gpufleet.pricing.racks import price_racks
from gpufleet.pricing.table import BY_USE, FREE, FREE_MODULES, HARMLESS_PACKAGES, PRICED
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack

_TRAFFIC = "data transfer between zones, between regions and to the internet"
_OWNERS: Mapping[Kind, str] = {"network": NETWORK, "control-plane": CONTROL_PLANE}


def price(
    stack: Stack, catalog: Catalog, plan: FleetPlan | None, default_region: str, assumptions: Assumptions
) -> StackCost:
    """See `gpufleet.pricing.price_stack`."""
    pricing = Pricing(stack, catalog, plan, default_region)
    for resource in stack:
        _price(pricing, resource)
    if pricing.lines:
        pricing.leave_out(_TRAFFIC)
    lines: list[ResourceCost] = pricing.lines
    if plan is not None:
        lines += price_racks(plan)
        racks = tuple(f"{site.site}: " for site in plan.onprem)
        for text in plan.cost.not_counted:
            if racks and text.startswith(racks):
                pricing.leave_out(text)
    done = assume(lines, assumptions)
    dates = [line.date for line in done if line.date is not None]
    return StackCost(
        lines=done,
        not_counted=tuple(pricing.not_counted),
        oldest_price=min(dates) if dates else None,
    )


def _price(pricing: Pricing, resource: Resource) -> None:
    kind = resource.type
    priced = PRICED.get(kind)
    if priced is not None:
        before = len(pricing.lines)
        try:
            priced[1](pricing, resource)
        except UnpricedError as reason:
            _no_price(pricing, resource, before, str(reason))
        except (TypeError, ValueError, AttributeError, LookupError) as error:
            # Inputs of another shape than the provider takes, which it refuses later on.
            _no_price(pricing, resource, before, f"its inputs cannot be read ({type(error).__name__})")
        return
    if kind in FREE or kind.startswith(tuple(FREE_MODULES)):
        return
    by_use = BY_USE.get(kind)
    if by_use is not None:
        pricing.leave_out(by_use)
        return
    elsewhere = _elsewhere(resource)
    if elsewhere:
        pricing.unknown(resource, _named(kind), "service", elsewhere, pricing.owners.of(resource))


def _no_price(pricing: Pricing, resource: Resource, before: int, reason: str) -> None:
    # Half a price would be taken for the whole.
    del pricing.lines[before:]
    kind = PRICED[resource.type][0]
    owner = pricing.owners.of(resource, default=_OWNERS.get(kind, ""))
    pricing.unknown(resource, _named(resource.type), kind, reason, owner)


def _elsewhere(resource: Resource) -> str:
    """Why the cost of a type that is in no table is unknown; empty where it has none."""
    kind = resource.type
    package = kind.split(":", 1)[0]
    if package == "aws":
        return f"nobody has told what resources of type {kind} cost"
    if package in HARMLESS_PACKAGES:
        return charged(resource) if package == "kubernetes" else ""
    # A component has no provider, and costs nothing itself.
    return f"resources of the package {package} have no prices here" if resource.provider is not None else ""


def _named(kind: str) -> str:
    return kind.rsplit(":", 1)[-1]
