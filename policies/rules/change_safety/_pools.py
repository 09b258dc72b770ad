"""Node pools of Karpenter whose nodes a change removes: of deleted pools, and of those that drift."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from gpufleet.policies.rules.change_safety._removals import forced
from gpufleet.policy.change import ChangeStep, StackChange
from gpufleet.resources.launch_inputs import InstanceTypes
from gpufleet.resources.launches import Launch, declared
from gpufleet.resources.node_pools import Pool, node_pools
from gpufleet.resources.resource import UNKNOWN, Resource
from gpufleet.resources.stack import Stack


def disturbed_pools(
    change: StackChange, steps: Mapping[str, ChangeStep]
) -> Iterator[tuple[Launch, str, str]]:
    """Yield (launch, its URN after the change, how) of each pool of the stack before whose nodes end.

    Its nodes are those that always run: how many others there are is in no stack.
    """
    after = {pool.resource.urn: pool for pool in node_pools(change.after)}
    for pool in node_pools(change.before):
        step = steps.get(pool.resource.urn)
        urn = step.urn if step is not None else pool.resource.urn
        if step is not None and step.operation in ("delete", "replace"):
            yield _launch(pool), urn, f"{step.operation}s it{forced(step)}"
            continue
        if not _replaces(after.get(urn, pool).resource):
            continue
        if _differs(step, "spec.template"):
            yield _launch(pool), urn, "replaces its nodes (by spec.template)"
        elif pool.node_class is not None and _differs(steps.get(pool.node_class.urn), "spec"):
            yield _launch(pool), urn, "replaces its nodes (by spec of its EC2NodeClass)"


def pool_launches(stack: Stack) -> list[Launch]:
    """Return the node pools of a stack as other launches are."""
    return [_launch(pool) for pool in node_pools(stack)]


def _replaces(pool: Resource) -> bool:
    """Return whether Karpenter replaces changed nodes that have work."""
    for _, budget in pool.items("spec.disruption.budgets"):
        if isinstance(budget, Mapping) and budget.get("nodes") in ("0", 0, "0%"):
            reasons = budget.get("reasons")
            # Without reasons a budget is one for all.
            if budget.get("schedule") is None and (not reasons or "Drifted" in reasons):
                return False
    return True


def _differs(step: ChangeStep | None, path: str) -> bool:
    """Return whether a change gives a resource another value at `path`."""
    if step is None or step.before is None or step.operation not in ("update", "replace"):
        return False
    return step.after is None or declared(step.before).get(path) != declared(step.after).get(path)


def _launch(pool: Pool) -> Launch:
    """Return a pool as other launches are, with the tags and labels of its nodes."""
    always = pool.replicas if pool.replicas is not None else 0
    view = {"tags": pool.tags, "labels": pool.resource.get("spec.template.metadata.labels")}
    return Launch(
        resource=replace(pool.resource, props=view),
        templates=(),
        unclear="",
        types=InstanceTypes(),
        markets=frozenset(),
        minimum=always,
        desired=always,
        maximum=UNKNOWN,
        minimum_path="spec.replicas",
        size_path="spec.limits",
    )
