"""Instances have types that the environment allows and the catalog lists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import translate

from pydantic import Field

from gpufleet.policies.rules.capacity._other_launchers import OTHER_LAUNCHERS, types_written
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import declared, launches
from gpufleet.resources.node_pools import POOL_REQUIREMENTS, TYPE_KEY, node_pools
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    BATCH,
    BLOCK_OFFERING,
    CAPACITY_BLOCK,
    CAPACITY_RESERVATION,
    FLEET,
    INSTANCE,
    LAUNCH_CONFIGURATION,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    NODE_POOL,
    SPOT_FLEET,
    SPOT_INSTANCE_REQUEST,
)

WRITTEN = {
    LAUNCH_TEMPLATE: "instanceType",
    LAUNCH_CONFIGURATION: "instanceType",
    CAPACITY_RESERVATION: "instanceType",
    BLOCK_OFFERING: "instance_type",
}
"""Properties that hold instance types without launching instances."""


class AllowedInstanceTypesSettings(Settings):
    """Which types may be used."""

    allowed: tuple[str, ...] = Field(
        (),
        description="Patterns of allowed instance types, such as `p5.*`; every type of the "
        "catalog if not set",
    )
    also: tuple[str, ...] = Field(
        (), description="Allowed types that the catalog does not list: they have no price"
    )


@stack_rule(
    "allowed-instance-types",
    group="capacity",
    title="The environment allows the instance types",
    why="A type outside the catalog has no price, no GPU count and no EFA layout, so every other rule skips "
    "it. A typing error in a type can cost a hundred times as much.",
    fix="Use a type that `gpufleet catalog` lists and that the rule's `allowed` covers.",
    severity="high",
    types=(
        NODE_GROUP,
        AUTO_SCALING_GROUP,
        FLEET,
        SPOT_FLEET,
        BATCH,
        INSTANCE,
        SPOT_INSTANCE_REQUEST,
        CAPACITY_BLOCK,
        NODE_POOL,
        *WRITTEN,
        *OTHER_LAUNCHERS,
    ),
    settings=AllowedInstanceTypesSettings,
    fleet_field="cloud",
    passes=Example(
        (
            {
                "type": NODE_GROUP,
                "props": {"instanceTypes": ["p5.48xlarge"], "scalingConfig": {"minSize": 0, "maxSize": 2}},
            },
        ),
        settings={"allowed": ["p5.*", "m7i.*"]},
    ),
    fails=Example(
        (
            {
                "type": NODE_GROUP,
                "props": {"instanceTypes": ["p5en.48xlarge"], "scalingConfig": {"minSize": 0, "maxSize": 2}},
            },
        ),
        settings={"allowed": ["p5.*", "m7i.*"]},
    ),
)
def allowed_instance_types(
    stack: Stack, context: RuleContext[AllowedInstanceTypesSettings]
) -> Iterator[Violation]:
    """Check everything that launches instances, and every property with an instance type."""
    settings = context.settings
    pattern = re.compile("|".join(map(translate, settings.allowed))) if settings.allowed else None
    known = context.shared.catalog.instances

    def check(resource: Resource, name: str, prop: str) -> Iterator[Violation]:
        plain = name.removeprefix("ml.")
        if plain in settings.also or name in settings.also:
            return
        if plain not in known:
            near = context.shared.catalog.suggest_instance(plain)
            yield Violation(
                f"{prop} is {name!r}, which is not in the catalog: its price and GPUs are unknown",
                (f"did you mean {near!r}? If not, use" if near else "use")
                + " a type that `gpufleet catalog` lists",
                urn=resource.urn,
                prop=prop,
            )
        elif pattern is not None and not pattern.match(plain):
            yield Violation(
                f"{prop} is {name!r}, and {context.environment} allows {', '.join(settings.allowed)}",
                "use one of these, or add it to `policies.allowed-instance-types.settings.allowed`",
                urn=resource.urn,
                prop=prop,
            )

    for launch in launches(stack):
        prop = _prop(launch.resource)
        for name in launch.types.names:
            yield from check(launch.resource, name, prop)
        if launch.types.unclear:
            yield _unclear(launch.resource, launch.types.unclear, prop)
    for pool in node_pools(stack):
        for name in pool.types or ():
            yield from check(pool.resource, name, POOL_REQUIREMENTS)
        if not pool.types:
            yield _unclear(pool.resource, f"no requirement lists values of {TYPE_KEY}", POOL_REQUIREMENTS)
    templates = {template.urn for launch in launches(stack) for template in launch.templates}
    for original in stack.of_type(*WRITTEN):
        prop = WRITTEN[original.type]
        value = declared(original).get(prop)
        if value is None or original.urn in templates:
            continue
        if isinstance(value, str):
            yield from check(original, value, prop)
        else:
            yield _unclear(original, "the type is not known yet", prop)
    for resource in stack.of_type(*OTHER_LAUNCHERS):
        for prop, value in types_written(resource):
            if isinstance(value, str):
                yield from check(resource, value, prop)
            else:
                yield _unclear(resource, "the type is not known yet", prop)
    for block in stack.of_type(CAPACITY_BLOCK):
        value = block.get("instanceType")
        if isinstance(value, str):
            yield from check(block, value, "instanceType")
        elif not stack.references(block, "capacityBlockOfferingId", types=(BLOCK_OFFERING,)):
            yield _unclear(block, "what the offering contains is not known", "capacityBlockOfferingId")


def _prop(resource: Resource) -> str:
    return {
        NODE_GROUP: "instanceTypes",
        AUTO_SCALING_GROUP: "mixedInstancesPolicy",
        FLEET: "launchTemplateConfigs",
        SPOT_FLEET: "launchTemplateConfigs",
        BATCH: "computeResources.instanceTypes",
    }.get(resource.type, "instanceType")


def _unclear(resource: Resource, why: str, prop: str) -> Violation:
    return Violation(
        f"the instance types that it launches are not known: {why}",
        "write the types in this stack",
        urn=resource.urn,
        prop=prop,
        unknown=True,
    )
