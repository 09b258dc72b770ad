"""Inputs of launchers: instance types with weights, and how instances are bought."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from gpufleet.resources.resource import UNKNOWN, Resource, Unknown, is_unknown
from gpufleet.resources.types import BATCH, INSTANCE, NODE_GROUP, SPOT_FLEET, SPOT_INSTANCE_REQUEST

Number = int | Unknown
Market = Literal["on-demand", "spot", "capacity-block", "unknown"]

MIXED = "mixedInstancesPolicy.launchTemplate"
EKS_DEFAULT_TYPE = "t3.medium"
"""EKS's default if neither node group nor launch template has a type (CreateNodegroup)."""


class InstanceTypes(Struct, frozen=True):
    """Types that may be launched, each with its weight (how much of the size one instance fills).

    `unclear` says why there may be others; empty if these are all.
    """

    weights: tuple[tuple[str, int], ...] = ()
    unclear: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names only."""
        return tuple(name for name, _ in self.weights)


def number(value: Any) -> Number:
    """Return a whole number of an input, which may be a string; UNKNOWN for anything else."""
    if isinstance(value, bool) or value is None or is_unknown(value):
        return UNKNOWN
    try:
        return int(value)
    except (TypeError, ValueError):
        return UNKNOWN


def instance_types(resource: Resource, templates: Sequence[Resource], unclear: str) -> InstanceTypes:
    """Return the types that a resource launches; its launch templates' if it has none."""
    found: dict[str, int] = {}
    why = ""
    for name, weight, requirements in _written_types(resource):
        if requirements is not None:
            names, reason = _required(requirements)
            why = why or reason
            found.update(dict.fromkeys(names, weight))
        elif isinstance(name, str):
            found[name] = min(weight, found.get(name, weight))
        else:
            why = why or "an instance type is not known yet"
    if found or why:
        return InstanceTypes(tuple(found.items()), why)
    # From here on the launch template decides: if it is unknown, so are the types.
    why = unclear
    for template in templates:
        requirements = template.get("instanceRequirements")
        name = template.get("instanceType")
        if requirements is not None:
            names, reason = _required(requirements)
            why = why or reason
            found.update(dict.fromkeys(names, 1))
        elif isinstance(name, str):
            found[name] = 1
        elif is_unknown(name):
            why = why or "the launch template's instance type is not known yet"
    if not found and not why and resource.type == NODE_GROUP:
        found[EKS_DEFAULT_TYPE] = 1
    if not found and not why:
        why = "no instance type is set"
    return InstanceTypes(tuple(found.items()), why)


def _written_types(resource: Resource) -> Iterator[tuple[Any, int, Any]]:
    """Yield (type, weight, requirements) from the launcher's own properties."""
    if resource.type == NODE_GROUP:
        for _, name in resource.items("instanceTypes"):
            yield name, 1, None
    elif resource.type == BATCH:
        for _, name in resource.items("computeResources.instanceTypes"):
            yield name, 1, None
    elif resource.type in (INSTANCE, SPOT_INSTANCE_REQUEST):
        if resource.get("instanceType") is not None:
            yield resource.get("instanceType"), 1, None
    else:
        for item in _overrides(resource):
            if is_unknown(item):
                yield UNKNOWN, 1, None
                continue
            weight = item.get("weightedCapacity")
            known = 1 if weight is None else number(weight)
            # An unknown weight may be as small as one, which means more instances.
            weight = 1 if known is UNKNOWN else known
            if item.get("instanceRequirements") is not None:
                yield None, weight, item["instanceRequirements"]
            elif item.get("instanceType") is not None:
                yield item["instanceType"], weight, None


def _overrides(resource: Resource) -> Iterator[Any]:
    lists = [f"{MIXED}.overrides", "launchSpecifications"]
    for path, config in resource.items("launchTemplateConfigs"):
        if is_unknown(config):
            yield UNKNOWN
        else:
            lists.append(f"{path}.overrides")
    for path in lists:
        for _, item in resource.items(path):
            if isinstance(item, dict) or is_unknown(item):
                yield item


def _required(requirements: Any) -> tuple[list[str], str]:
    """Return types from attributes: known only if they list whole names."""
    allowed = requirements.get("allowedInstanceTypes") if isinstance(requirements, dict) else None
    names = list(allowed) if isinstance(allowed, (list, tuple)) else []
    if names and all(isinstance(each, str) and "*" not in each for each in names):
        return names, ""
    return [], "instanceRequirements do not determine the types"


def _market(value: Any, spot: str = "spot") -> Market | None:
    if is_unknown(value):
        return "unknown"
    text = str(value or "").lower().replace("_", "-")
    if text == spot:
        return "spot"
    return "capacity-block" if text == "capacity-block" else None


def markets(resource: Resource, templates: Sequence[Resource]) -> Iterator[Market]:
    """Yield how the instances are bought, except on demand; "unknown" if not known."""
    for source in (resource, *templates):
        market = _market(source.get("instanceMarketOptions.marketType"))
        if market is not None:
            yield market
        if source.get("spotPrice") is not None:
            yield "spot"
    if resource.type in (SPOT_INSTANCE_REQUEST, SPOT_FLEET):
        yield "spot"
    for path in (
        "capacityType",
        "computeResources.type",
        "targetCapacitySpecification.defaultTargetCapacityType",
    ):
        market = _market(resource.get(path))
        if market is not None:
            yield market
    if resource.get("targetCapacitySpecification.spotTargetCapacity", 0) != 0:
        yield "spot"
    if resource.get("mixedInstancesPolicy") is not None:
        path = "mixedInstancesPolicy.instancesDistribution.onDemandPercentageAboveBaseCapacity"
        share = number(resource.get(path, 100))
        if share is UNKNOWN:
            yield "unknown"
        elif share < 100:
            yield "spot"
            if share > 0 or resource.get(path.replace("PercentageAboveBase", "Base"), 0) != 0:
                yield "on-demand"
