"""Nodes that a change disturbs: of groups that are deleted, replaced, rolled or reduced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from gpufleet.policies.rules.change_safety._pools import disturbed_pools
from gpufleet.policies.rules.change_safety._removals import forced
from gpufleet.policy.change import ChangeStep, StackChange
from gpufleet.resources.launches import Launch, declared, launches, tags_of
from gpufleet.resources.resource import UNKNOWN, Unknown
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    NODE_GROUP,
)

# A change of these makes EKS replace every node of the group (UpdateNodegroupVersion).
_ROLLS = {
    NODE_GROUP: ("launchTemplate", "version", "releaseVersion", "amiType", "instanceTypes"),
    AUTO_SCALING_GROUP: ("launchTemplate", "mixedInstancesPolicy", "launchConfiguration"),
}
_OF_THE_TEMPLATE_ALONE = frozenset({"tags", "tagsAll", "description", "name", "namePrefix"})


class DisturbedNodes(Struct, frozen=True):
    """A launch whose nodes a change removes, and their number. `how` starts with a verb.

    `urn` is the launch's URN after the change if it still exists: exemptions refer to it.
    """

    launch: Launch
    urn: str
    how: str
    nodes: int | Unknown


def nodes_of(launch: Launch) -> int | Unknown:
    """Return the number of nodes of a launch: the desired ones, and all of a Capacity Block."""
    count = launch.maximum if "capacity-block" in launch.markets else launch.desired
    if count is UNKNOWN or launch.minimum is UNKNOWN:
        return UNKNOWN
    if launch.unit == "vCPUs":
        return UNKNOWN if count else 0
    return max(count, launch.minimum)


def site_of(launch: Launch) -> str:
    """Return the site in a launch's tags; empty if there is none."""
    value = tags_of(launch.resource).get("gpufleet:site")
    return value if isinstance(value, str) else ""


def group_of(launch: Launch) -> str:
    """Return "site/group" from the launch's tags; its own name without them."""
    tags = tags_of(launch.resource)
    site, group = tags.get("gpufleet:site"), tags.get("gpufleet:node-group")
    if isinstance(site, str) and isinstance(group, str):
        return f"{site}/{group}"
    return launch.resource.name


def disturbed(change: StackChange) -> Iterator[DisturbedNodes]:
    """Yield each launch of the stack before the change whose nodes it removes."""
    steps: Mapping[str, ChangeStep] = {
        step.before.urn: step for step in change.steps if step.before is not None
    }
    after = {launch.resource.urn: launch for launch in launches(change.after)}
    for launch in launches(change.before):
        step = steps.get(launch.resource.urn)
        nodes = nodes_of(launch)
        urn = step.urn if step is not None else launch.resource.urn
        if step is not None and step.operation in ("delete", "replace"):
            yield DisturbedNodes(launch, urn, f"{step.operation}s it{forced(step)}", nodes)
            continue
        how = _rolled(launch, step, steps)
        if how:
            yield DisturbedNodes(launch, urn, how, nodes)
            continue
        new = after.get(urn) if step is not None and step.operation == "update" else None
        most = new.maximum if new is not None else UNKNOWN
        if most is not UNKNOWN and nodes is not UNKNOWN and most < nodes:
            yield DisturbedNodes(launch, urn, f"lowers its maximum to {most}", nodes - most)
    for pool, urn, how in disturbed_pools(change, steps):
        yield DisturbedNodes(pool, urn, how, nodes_of(pool))


def _rolled(launch: Launch, step: ChangeStep | None, steps: Mapping[str, ChangeStep]) -> str:
    """Return how the change replaces the nodes of a group that stays; empty if it does not."""
    resource = launch.resource
    if resource.type not in _ROLLS or (resource.type == AUTO_SCALING_GROUP and not _refreshes(launch, step)):
        return ""
    if step is not None and step.operation == "update":
        keys = [key for key in step.diff if _top(key) in _ROLLS[resource.type]]
        if keys:
            return f"replaces its nodes (by {', '.join(keys)})"
    for template in launch.templates:
        other = steps.get(template.urn)
        if other is None:
            continue
        keys = [key for key in other.diff if _top(key) not in _OF_THE_TEMPLATE_ALONE]
        if other.operation == "replace" or (other.operation == "update" and keys):
            what = ", ".join(keys or other.replace_keys) or "another one"
            return f"replaces its nodes (by {what} of its launch template)"
    return ""


def _refreshes(launch: Launch, step: ChangeStep | None) -> bool:
    """Return whether an Auto Scaling group replaces running nodes for a new template."""
    group = step.after if step is not None and step.after is not None else launch.resource
    return declared(group).get("instanceRefresh") is not None


def _top(key: str) -> str:
    return key.split(".")[0].split("[")[0]
