"""Launch templates of groups, and their settings for nodes and reservations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet.pricing.of_stack.context import Pricing
from gpufleet.pricing.of_stack.inputs import declared, first, is_true, text
from gpufleet.pricing.rates import UnpricedError
from gpufleet.resources.resource import UNKNOWN, Resource, shown
from gpufleet.resources.types import (
    CAPACITY_BLOCK,
    CAPACITY_RESERVATION,
    LAUNCH_CONFIGURATION,
    LAUNCH_TEMPLATE,
)

RESERVATION = "capacityReservationSpecification"
_TARGET = f"{RESERVATION}.capacityReservationTarget"


def template_of(pricing: Pricing, resource: Resource, prop: str, reference: Mapping[str, Any]) -> Resource:
    """Return the launch template that `prop` refers to. `reference` has its ID or name, and its version.

    Known IDs and names are compared; unknown ones are resolved by property dependencies. Raises
    `UnpricedError` if it is not in the stack or an older version is requested.
    """
    wanted = {
        "id": first(reference, "id", "launchTemplateId"),
        "name": first(reference, "name", "launchTemplateName"),
    }
    known = {key: each for key, each in wanted.items() if isinstance(each, str)}
    if known:
        candidates = [
            each
            for each in pricing.stack.of_type(LAUNCH_TEMPLATE)
            if all(each.get(key) == value for key, value in known.items())
        ]
    else:
        candidates = pricing.stack.references(resource, prop, types=[LAUNCH_TEMPLATE])
    if len(candidates) != 1:
        name = ", ".join(known.values()) or "that it refers to"
        raise UnpricedError(f"the launch template {name} is not in this stack")
    _last_version(candidates[0], reference.get("version"))
    return candidates[0]


def _last_version(template: Resource, version: Any) -> None:
    if version is UNKNOWN or version is None or version in ("$Latest", "$Default"):
        return
    last = template.get("latestVersion")
    if str(last) != str(version):
        raise UnpricedError(
            f"version {shown(version)} of the launch template {template.name} is requested, but only"
            f" the content of the last version, {shown(last)}, is known"
        )


def configuration_of(pricing: Pricing, resource: Resource) -> Resource:
    """Return the launch configuration of an Auto Scaling group. Raises `UnpricedError` if it is not in the
    stack."""
    name = declared(resource, "launchConfiguration")
    found = pricing.stack.references(resource, "launchConfiguration", types=[LAUNCH_CONFIGURATION])
    if isinstance(name, str):
        found = [
            each
            for each in pricing.stack.of_type(LAUNCH_CONFIGURATION)
            if name in (each.get("name"), each.get("id"))
        ]
    if len(found) != 1:
        raise UnpricedError(f"the launch configuration {shown(name)} is not in this stack")
    return found[0]


def market_type(template: Resource) -> str:
    """Return the purchase option of a template: `on-demand`, `spot` or `capacity-block`."""
    return text(template, "instanceMarketOptions.marketType") or "on-demand"


def shared_hardware(resource: Resource, path: str) -> None:
    """Raise `UnpricedError` for dedicated tenancy, which costs more."""
    tenancy = text(resource, path)
    if tenancy not in (None, "default"):
        raise UnpricedError(f"no price is known for tenancy {tenancy}")


def targets_reservation(resource: Resource) -> bool:
    """Return whether a template, instance or group targets a reservation."""
    return declared(resource, _TARGET) is not None


def reservation_of(pricing: Pricing, resource: Resource) -> Resource | None:
    """Return the targeted reservation of the stack, None if there is none or it is outside of the stack."""
    if declared(resource, _TARGET) is None:
        return None
    return reservation_named(pricing, resource, RESERVATION, named_reservation(resource))


def reservation_named(pricing: Pricing, resource: Resource, prop: str, named: str | None) -> Resource | None:
    """Return the reservation of the stack with this ID; if that is not known, the one that `prop` of the
    resource was computed from."""
    kinds = [CAPACITY_RESERVATION, CAPACITY_BLOCK]
    if named is not None:
        return next((each for each in pricing.stack.of_type(*kinds) if each.get("id") == named), None)
    found = pricing.stack.references(resource, prop, types=kinds)
    return found[0] if len(found) == 1 else None


def named_reservation(resource: Resource) -> str | None:
    """Return the ID of the targeted reservation, None if it is not known."""
    target = declared(resource, _TARGET)
    if not isinstance(target, Mapping):
        return None
    ids = target.get("capacityReservationIds")
    value = target.get("capacityReservationId")
    if value is None and isinstance(ids, list) and len(ids) == 1:
        value = ids[0]
    return value if isinstance(value, str) else None


def public_addresses(template: Resource) -> int:
    """Return the public IPv4 addresses per node of a launch template. Raises `UnpricedError`."""
    interfaces = declared(template, "networkInterfaces")
    if interfaces is UNKNOWN:
        raise UnpricedError("networkInterfaces is not known yet")
    each = 0
    for interface in interfaces if interfaces is not None else ():
        wanted = interface.get("associatePublicIpAddress") if isinstance(interface, Mapping) else UNKNOWN
        each += is_true(wanted, "networkInterfaces.associatePublicIpAddress")
    return each
