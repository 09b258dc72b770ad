"""Karpenter's node pools list their instance types and have a limit that holds."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.plan.karpenter import node_size
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.node_pools import POOL_REQUIREMENTS, TYPE_KEY, Pool, node_pools
from gpufleet.resources.resource import UNKNOWN
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import NODE_POOL

_LIMITS = "spec.limits"
_TYPES = {"key": TYPE_KEY, "operator": "In", "values": ["g6.xlarge"]}


def _example(**spec: object) -> Example:
    template = {"spec": {"requirements": [_TYPES]}}
    return Example(({"type": NODE_POOL, "props": {"spec": {"template": template, **spec}}},))


@stack_rule(
    "node-pools-limited",
    group="capacity",
    title="Node pools of Karpenter have a limit that bounds their nodes",
    why="Karpenter launches as many nodes as pods request, of any type that it may choose. It does not count"
    " the nodes that it launches for one batch of pods against `limits.nodes`: a limit of nodes only is"
    " exceeded as soon as many pods wait at once.",
    fix="List the instance types in a requirement, and set `spec.limits` for `cpu` or for the devices of the "
    "types (`nvidia.com/gpu`).",
    severity="high",
    types=(NODE_POOL,),
    settings=Settings,
    fleet_field="cloud",
    passes=_example(limits={"nodes": 4, "nvidia.com/gpu": 4}),
    fails=_example(limits={"nodes": 4}),
)
def node_pools_limited(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check each node pool for each of its types."""
    for pool in node_pools(stack):
        if not pool.types:
            why = f"Karpenter chooses its types: no requirement lists values of {TYPE_KEY}"
            yield _violation(pool, why, POOL_REQUIREMENTS)
            continue
        if any(pool.resource.ignores(each) for each in ("spec", _LIMITS, "spec.replicas")):
            yield _violation(pool, "changes of its limits outside the program would stay", _LIMITS)
            continue
        catalog = context.shared.catalog.instances
        sizes = [node_size(catalog[name]) for name in pool.types if name in catalog]
        # A type outside of the catalog has vCPUs, of a number that is not known.
        known = len(sizes) == len(pool.types) or "cpu" in pool.limits
        if not known or any(pool.most(size) is UNKNOWN for size in sizes):
            shown = pool.resource.show(_LIMITS)
            yield _violation(pool, f"{_LIMITS} is {shown}, which bounds not all of its types", _LIMITS)


def _violation(pool: Pool, why: str, prop: str) -> Violation:
    return Violation(
        f"the number of its nodes has no bound: {why}",
        "list the types, and set a limit of cpu, nvidia.com/gpu or aws.amazon.com/neuron besides nodes",
        urn=pool.resource.urn,
        prop=prop,
    )
