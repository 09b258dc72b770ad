"""The number of GPUs at maximum size is within the environment's limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import Field

from gpufleet.catalog import Catalog
from gpufleet.kinds import GPU_RESOURCE
from gpufleet.plan.karpenter import node_size
from gpufleet.policies.rules.capacity._other_launchers import OTHER_LAUNCHERS, uncounted
from gpufleet.policies.rules.capacity._reservations import reservations
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import LAUNCHERS, Launch, launches, orphan_schedules
from gpufleet.resources.node_pools import Pool, node_pools
from gpufleet.resources.resource import UNKNOWN, Resource
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import (
    CAPACITY_BLOCK,
    CAPACITY_RESERVATION,
    CLUSTER,
    NODE_GROUP,
    NODE_POOL,
    SCHEDULE,
)

ALL = "all"

Counts = dict[str, float]


class MaximumGpusSettings(Settings):
    """The maximum number of GPUs."""

    max_gpus: dict[str, int] = Field(
        default_factory=dict,
        description="Maximum number of GPUs, by kind (`H100`) or for `all` kinds; no limit if not set",
    )


@stack_rule(
    "maximum-gpus",
    group="capacity",
    title="GPUs at maximum size are within the environment's limit",
    why="An autoscaler can grow a group to its maximum at any time, and quotas and contracts limit GPUs, "
    "not money.",
    fix="Lower the maximum of a node group or reservation, or raise `max_gpus` of the environment.",
    severity="high",
    types=(
        *LAUNCHERS,
        CAPACITY_BLOCK,
        CAPACITY_RESERVATION,
        SCHEDULE,
        CLUSTER,
        NODE_POOL,
        *OTHER_LAUNCHERS,
    ),
    settings=MaximumGpusSettings,
    fleet_field="cloud",
    passes=Example(
        (
            {
                "type": NODE_GROUP,
                "props": {"instanceTypes": ["p5.48xlarge"], "scalingConfig": {"minSize": 0, "maxSize": 2}},
            },
        ),
        settings={"max_gpus": {"H100": 16}},
    ),
    fails=Example(
        (
            {
                "type": NODE_GROUP,
                "props": {"instanceTypes": ["p5.48xlarge"], "scalingConfig": {"minSize": 0, "maxSize": 3}},
            },
        ),
        settings={"max_gpus": {"H100": 16}},
    ),
)
def maximum_gpus(stack: Stack, context: RuleContext[MaximumGpusSettings]) -> Iterator[Violation]:
    """Count the GPUs of all launches and reservations; launches into a reservation count once."""
    limits = {kind.lower(): limit for kind, limit in context.settings.max_gpus.items()}
    if not limits:
        return
    catalog = context.shared.catalog
    for kind in limits.keys() - {ALL, *(name.lower() for name in catalog.accelerators)}:
        yield Violation(
            f"max_gpus has {kind!r}, which no instance type of the catalog has",
            f"use one of {', '.join(catalog.accelerators)}, or {ALL}",
        )
    yield from uncounted(stack, catalog)
    for schedule in orphan_schedules(stack):
        yield _unclear(schedule, "it raises a group that is not in this stack", "autoscalingGroupName")
    totals: dict[str, Counts] = {}
    for resource, counts in _counted(stack, catalog):
        if isinstance(counts, str):
            yield _unclear(resource, counts, "")
        else:
            for kind, gpus in counts.items():
                for key in (kind.lower(), ALL):
                    totals.setdefault(key, {})
                    totals[key][resource.name] = totals[key].get(resource.name, 0) + gpus
    for kind, limit in limits.items():
        parts = totals.get(kind, {})
        total = sum(parts.values())
        if total > limit:
            largest = sorted(parts.items(), key=lambda item: (-item[1], item[0]))
            names = ", ".join(f"{name} {gpus:g}" for name, gpus in largest[:5])
            yield Violation(
                f"{total:g} GPUs ({kind if kind == ALL else kind.upper()}) at maximum size, and {limit}"
                f" are allowed: {names}{', ...' if len(largest) > 5 else ''}",
                "lower the maximum of these, or raise `policies.maximum-gpus.settings.max_gpus`",
            )


def _counted(stack: Stack, catalog: Catalog) -> Iterator[tuple[Resource, Counts | str]]:
    """Yield the GPUs of each reservation with its launches and node pools, and of each other one; text if
    unknown."""
    found = reservations(stack)
    inside: set[str] = set()
    for held in found.held:
        filling = found.into(held)
        if held.open:
            filling = filling + [each for each in found.launches if found.falls_into(each, held)]
        filling = [each for each in filling if each.resource.urn not in inside]
        inside.update(each.resource.urn for each in filling)
        if held.type is UNKNOWN or held.count is UNKNOWN:
            yield held.resource, "the instances of the reservation are not known"
            continue
        own = _of_type(catalog, held.type, held.count)
        filled: Counts = {}
        unclear = own if isinstance(own, str) else ""
        pools = [each for each in found.pools_into(held) if each.resource.urn not in inside]
        inside.update(each.resource.urn for each in pools)
        for name, counts in (
            *((launch.resource.name, _of_launch(catalog, launch)) for launch in filling),
            *((pool.resource.name, _of_pool(catalog, pool)) for pool in pools),
        ):
            if isinstance(counts, str):
                unclear = unclear or f"{name}: {counts}"
            else:
                filled = {kind: filled.get(kind, 0) + counts.get(kind, 0) for kind in {*filled, *counts}}
        if unclear or isinstance(own, str):
            yield held.resource, unclear
        else:
            yield held.resource, _larger(own, filled)
    for launch in launches(stack):
        if launch.resource.urn not in inside:
            yield launch.resource, _of_launch(catalog, launch)
    for pool in node_pools(stack):
        if pool.resource.urn not in inside:
            yield pool.resource, _of_pool(catalog, pool)


def _of_launch(catalog: Catalog, launch: Launch) -> Counts | str:
    if launch.types.unclear:
        return launch.types.unclear
    counts: Counts = {}
    for name, weight in launch.types.weights:
        known = catalog.instances.get(name)
        nodes = launch.nodes(weight, known.vcpus if known else None)
        of_type = _of_type(catalog, name, 1)
        if isinstance(of_type, str):
            return of_type
        if of_type and nodes is UNKNOWN:
            return f"its maximum ({launch.size_path}) is not known, or changes of it are ignored"
        if nodes is not UNKNOWN:
            counts = _larger(counts, {kind: gpus * nodes for kind, gpus in of_type.items()})
    return counts


def _of_pool(catalog: Catalog, pool: Pool) -> Counts | str:
    if pool.limits.get(GPU_RESOURCE) == 0:
        return {}
    if not pool.types or pool.resource.ignores("spec"):
        return "Karpenter chooses the nodes that it starts"
    counts: Counts = {}
    for name in pool.types:
        known = catalog.instances.get(name)
        if known is None:
            return f"{name} is not in the catalog"
        of_type, nodes = _of_type(catalog, name, 1), pool.most(node_size(known))
        if isinstance(of_type, str):
            return of_type
        if of_type and nodes is UNKNOWN:
            return "spec.limits has no limit of devices or cpu"
        if nodes is not UNKNOWN:
            counts = _larger(counts, {kind: gpus * nodes for kind, gpus in of_type.items()})
    return counts


def _of_type(catalog: Catalog, name: str, count: int) -> Counts | str:
    known = catalog.instances.get(name)
    if known is None:
        return f"{name} is not in the catalog"
    if known.accelerator is None:
        return f"the accelerator of {name} is not in the catalog" if known.accelerator_unknown else {}
    return {known.accelerator.name: known.accelerator.devices * count}


def _larger(one: Mapping[str, float], other: Mapping[str, float]) -> Counts:
    return {kind: max(one.get(kind, 0), other.get(kind, 0)) for kind in {**one, **other}}


def _unclear(resource: Resource, why: str, prop: str) -> Violation:
    return Violation(
        f"its GPUs cannot be counted: {why}",
        "write known types and sizes, and keep what raises a maximum in this stack",
        urn=resource.urn,
        prop=prop,
        unknown=True,
    )
