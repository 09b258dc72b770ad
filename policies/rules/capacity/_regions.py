"""The region of an AWS resource: from its own property, its provider, or the stack configuration."""

from __future__ import annotations

from gpufleet.policy.context import PolicyContext
from gpufleet.resources.resource import UNKNOWN, Resource, Unknown


def region_of(resource: Resource, shared: PolicyContext) -> str | Unknown:
    """Return the region; empty if none is set, UNKNOWN if it is not known yet."""
    own = resource.get("region")
    if own is UNKNOWN and resource.inputs is not None and "region" not in resource.inputs:
        own = None
    if own is not None:
        return UNKNOWN if own is UNKNOWN else str(own)
    provider = resource.provider
    if provider is not None and "region" in provider.props:
        value = provider.props["region"]
        return UNKNOWN if value is UNKNOWN else str(value or "")
    return shared.region


def site_regions(shared: PolicyContext) -> tuple[str, ...]:
    """Return the regions of the fleet's cloud sites; empty without a fleet file."""
    return tuple(dict.fromkeys(site.region for site in shared.spec.cloud)) if shared.spec is not None else ()


def site_zones(shared: PolicyContext) -> tuple[str, ...]:
    """Return the zones of the fleet's cloud sites; empty without a fleet file."""
    if shared.spec is None:
        return ()
    return tuple(dict.fromkeys(zone for site in shared.spec.cloud for zone in site.zones))
