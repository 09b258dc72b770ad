"""Launchers of instances in a stack: types, numbers, purchase options, launch templates.

Node groups, Auto Scaling groups, fleets, spot requests, batch environments and single instances have the same
settings in different properties, half of them in a launch template. Rules on capacity use this module, so
that none of them misses a launcher. Only what a program declared counts: values from a provider are unknown
in a preview.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from gpufleet.plan.models import FleetPlan
from gpufleet.resources.launch_inputs import InstanceTypes, Market, Number, instance_types, markets, number
from gpufleet.resources.resource import UNKNOWN, Resource, is_unknown
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import (
    APP_SCALING_TARGET,
    AUTO_SCALING_GROUP,
    BATCH,
    BLOCK_SCHEDULE,
    FLEET,
    INSTANCE,
    LAUNCH_CONFIGURATION,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    SCHEDULE,
    SPOT_FLEET,
    SPOT_INSTANCE_REQUEST,
)

LAUNCHERS = (NODE_GROUP, AUTO_SCALING_GROUP, FLEET, SPOT_FLEET, BATCH, INSTANCE, SPOT_INSTANCE_REQUEST)
"""Types that start instances themselves."""

TEMPLATES = (LAUNCH_TEMPLATE, LAUNCH_CONFIGURATION)

_SIZES = {
    NODE_GROUP: ("scalingConfig.minSize", "scalingConfig.desiredSize", "scalingConfig.maxSize"),
    AUTO_SCALING_GROUP: ("minSize", "desiredCapacity", "maxSize"),
    FLEET: ("targetCapacitySpecification.totalTargetCapacity",) * 3,
    SPOT_FLEET: ("targetCapacity",) * 3,
    BATCH: ("computeResources.minVcpus", "computeResources.desiredVcpus", "computeResources.maxVcpus"),
}
_REFERENCES = {
    NODE_GROUP: ("launchTemplate",),
    AUTO_SCALING_GROUP: ("launchTemplate", "mixedInstancesPolicy", "launchConfiguration"),
    FLEET: ("launchTemplateConfigs",),
    SPOT_FLEET: ("launchTemplateConfigs",),
    BATCH: ("computeResources",),
    INSTANCE: ("launchTemplate",),
    SPOT_INSTANCE_REQUEST: ("launchTemplate",),
}


class Launch(Struct, frozen=True):
    """One resource that starts instances. `resource` and `templates` contain only declared inputs.

    `unclear` says why the template's content is not known (it is not in this stack, or another version is
    pinned); rules on templates then fail closed. Sizes count `unit`s; `maximum` includes what schedules and
    scalers may raise it to. `size_path` and `minimum_path` are the properties to report.
    """

    resource: Resource
    templates: tuple[Resource, ...]
    unclear: str
    types: InstanceTypes
    markets: frozenset[Market]
    minimum: Number
    desired: Number
    maximum: Number
    minimum_path: str
    size_path: str
    unit: Literal["instances", "vCPUs"] = "instances"

    def nodes(self, weight: int, vcpus: int | None = None) -> Number:
        """Return the maximum number of instances, if all have that weight (and that many vCPUs)."""
        if self.maximum is UNKNOWN:
            return UNKNOWN
        per = vcpus if self.unit == "vCPUs" else weight
        return UNKNOWN if per is None else math.ceil(self.maximum / max(per, 1))


def declared(resource: Resource) -> Resource:
    """Return the resource with only its declared inputs."""
    return resource if resource.inputs is None else replace(resource, props=resource.inputs)


_known: WeakKeyDictionary[Stack, tuple[Launch, ...]] = WeakKeyDictionary()


def launches(stack: Stack) -> tuple[Launch, ...]:
    """Return all launches of a stack, computed once per stack."""
    found = _known.get(stack)
    if found is None:
        found = _known[stack] = tuple(_Reader(stack).all())
    return found


def orphan_schedules(stack: Stack) -> Iterator[Resource]:
    """Yield scheduled actions that set the maximum of a group outside this stack."""
    groups = stack.of_type(AUTO_SCALING_GROUP, NODE_GROUP)
    names = {each.get("name") for each in groups if isinstance(each.get("name"), str)}
    for schedule in stack.of_type(SCHEDULE):
        own = declared(schedule)
        known = stack.references(schedule, "autoscalingGroupName", types=(AUTO_SCALING_GROUP, NODE_GROUP))
        raises = own.get("maxSize") is not None and number(own.get("maxSize")) not in (0, -1)
        if raises and not known and own.get("autoscalingGroupName") not in names:
            yield own


def workload_of(resource: Resource, plan: FleetPlan | None) -> str:
    """Return the nodes' workload: that of the group in the tags by the fleet's plan, else the label."""
    tags = tags_of(resource)
    site, group = tags.get("gpufleet:site"), tags.get("gpufleet:node-group")
    for each in plan.node_groups if plan is not None else ():
        if (each.site, each.name) == (site, group):
            return each.workload
    labels = resource.get("labels")
    label = labels.get("gpufleet.io/workload") if isinstance(labels, dict) else None
    return label if isinstance(label, str) else ""


def tags_of(resource: Resource) -> dict[str, Any]:
    """Return tags as a mapping, of Auto Scaling groups too; empty if unknown or absent."""
    tags = resource.get("tags")
    if isinstance(tags, dict):
        return tags
    if not isinstance(tags, (list, tuple)):
        return {}
    return {str(tag.get("key")): tag.get("value") for tag in tags if isinstance(tag, dict)}


class _Reader:
    """Reads the launches of one stack."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.templates: dict[str, Resource] = {}
        for template in stack.of_type(*TEMPLATES):
            for attribute in ("id", "name"):
                value = template.get(attribute)
                if isinstance(value, str):
                    self.templates[value] = template
        self.raises: dict[str, list[Resource]] = {}
        groups = stack.of_type(AUTO_SCALING_GROUP, NODE_GROUP)
        names = {each.get("name"): each.urn for each in groups if isinstance(each.get("name"), str)}
        for schedule in stack.of_type(SCHEDULE, BLOCK_SCHEDULE):
            prop = "group_name" if schedule.type == BLOCK_SCHEDULE else "autoscalingGroupName"
            owners = [each.urn for each in stack.references(schedule, prop, types=(*_SIZES,))]
            named = names.get(schedule.get(prop)) if isinstance(schedule.get(prop), str) else None
            for urn in dict.fromkeys([*owners, *([named] if named else [])]):
                self.raises.setdefault(urn, []).append(declared(schedule))
        for target in stack.of_type(APP_SCALING_TARGET):
            for fleet in stack.references(target, "resourceId", types=(SPOT_FLEET,)):
                self.raises.setdefault(fleet.urn, []).append(declared(target))

    def all(self) -> Iterator[Launch]:
        for resource in self.stack.of_type(*LAUNCHERS):
            yield self._read(resource)

    def _read(self, original: Resource) -> Launch:
        resource = declared(original)
        templates, unclear = self._templates(resource)
        low, _, high = _SIZES.get(resource.type, ("", "", ""))
        minimum, desired, maximum = self._sizes(resource)
        return Launch(
            resource=resource,
            templates=templates,
            unclear=unclear,
            types=instance_types(resource, templates, unclear),
            markets=frozenset(markets(resource, templates)) or frozenset({"on-demand"}),
            minimum=minimum,
            desired=desired,
            maximum=maximum,
            minimum_path=low,
            size_path=high,
            unit="vCPUs" if _counts_vcpus(resource) else "instances",
        )

    def _templates(self, resource: Resource) -> tuple[tuple[Resource, ...], str]:
        props = [prop for prop in _REFERENCES[resource.type] if resource.get(prop) is not None]
        found = {each.urn: each for each in self.stack.references(resource, *props, types=TEMPLATES)}
        unclear = ""
        for prop in props:
            for name in _template_names(resource.get(prop)):
                if is_unknown(name):
                    unclear = unclear or ("" if found else f"{prop} is not known yet")
                elif name in self.templates:
                    found[self.templates[name].urn] = self.templates[name]
                else:
                    unclear = unclear or f"{prop} is {name}, which is not in this stack"
        originals = tuple(found.values())
        versions = [version for prop in props for version in _versions(resource.get(prop))]
        unclear = unclear or next(
            (reason for each in originals if (reason := _from_elsewhere(each) or _pinned(each, versions))), ""
        )
        return tuple(declared(each) for each in originals), unclear

    def _sizes(self, resource: Resource) -> tuple[Number, Number, Number]:
        if resource.type not in _SIZES:
            return 1, 1, 1
        low, wanted, high = _SIZES[resource.type]
        minimum = UNKNOWN if resource.ignores(low) else number(resource.get(low, 0))
        desired = number(resource.get(wanted, 0 if minimum is UNKNOWN else minimum))
        maximum = UNKNOWN if resource.ignores(high) else number(resource.get(high))
        minimums, maximums = [minimum], [maximum]
        for path in ("warmPool.maxGroupPreparedCapacity", "warmPoolConfig.maxGroupPreparedCapacity"):
            if resource.get(path) is not None:
                maximums.append(number(resource.get(path)))
        for other in self.raises.get(resource.urn, ()):
            for prop, into in (
                ("minSize", minimums),
                ("maxSize", maximums),
                ("desiredCapacity", maximums),
                ("nodes", maximums),
                ("maxCapacity", maximums),
                ("minCapacity", minimums),
            ):
                if other.get(prop) is not None:
                    into.append(UNKNOWN if other.ignores(prop) else number(other.get(prop)))
        return _most(minimums), desired, _most(maximums)


def _most(values: Iterable[Number]) -> Number:
    known: list[int] = []
    for value in values:
        if value is UNKNOWN:
            return UNKNOWN
        known.append(value)
    return max(known)


def _counts_vcpus(resource: Resource) -> bool:
    kinds = ("desiredCapacityType", "targetCapacitySpecification.targetCapacityUnitType")
    return resource.type == BATCH or any(resource.get(kind) == "vcpu" for kind in kinds)


def _template_names(value: Any) -> Iterator[Any]:
    """Yield ids and names of launch templates and configurations anywhere in a property."""
    if isinstance(value, str) or is_unknown(value):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in ("id", "name", "launchTemplateId", "launchTemplateName"):
                if item is not None:
                    yield item
            elif key in ("launchTemplate", "launchTemplateSpecification", "overrides") and item is not None:
                yield from _template_names(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _template_names(item) if not isinstance(item, str) else ()


def _versions(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "version":
                yield item
            else:
                yield from _versions(item)
        if ("id" in value or "launchTemplateId" in value or "name" in value) and "version" not in value:
            yield "$Default"
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _versions(item)


def _from_elsewhere(template: Resource) -> str:
    # Rules on single resources get only what the program creates. Resources that it reads
    # (`LaunchTemplate.get`) declare nothing, and are only in the stack.
    return f"{template.name} is read, not created here" if template.inputs is None else ""


def _pinned(template: Resource, versions: Sequence[Any]) -> str | None:
    """Return why another version of the template is launched than the declared one, if so."""
    latest, default = template.get("latestVersion"), template.get("defaultVersion")
    follows = declared(template).get("updateDefaultVersion") is True
    for version in versions:
        if is_unknown(version) or version in (None, "$Latest") or str(version) == str(latest):
            continue
        if version == "$Default" and (follows or default is None or is_unknown(default) or default == latest):
            continue
        return f"it launches version {version} of {template.name}, which is not the one declared here"
    return None
