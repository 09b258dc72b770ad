"""The effect of a change, read off the steps that an engine takes.

What an engine cannot see is declared here: which updates make AWS replace nodes one after another, and
which resources can go and come again without anybody noticing. Every other deletion or replacement
counts as a replacement, so a new resource type is judged harshly until somebody has thought about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpufleet.engine.api import Op, ResourceEvent


class Effect(StrEnum):
    """What a change does to what exists."""

    NOTHING = "nothing"
    IN_PLACE = "in place"
    ROLLING = "rolling"
    REPLACEMENT = "replacement"


ROLLS: Mapping[str, frozenset[str]] = {
    # EKS user guide, "Update a managed node group": a new version of the launch template or of
    # Kubernetes drains and replaces the nodes, as many at once as updateConfig says (one, here).
    "aws:eks/nodeGroup:NodeGroup": frozenset({"launchTemplate", "version", "releaseVersion"}),
    # A new pod template or image: a DaemonSet replaces its pods node by node. Running pods keep the
    # devices they have, so this is no rolling of nodes, and it is not listed.
}
"""Type -> inputs whose update makes AWS replace nodes one after another."""

UNNOTICED = frozenset(
    {
        # Rights and rules: the new one is there before the old one goes, or nothing holds on to it.
        "aws:eks/accessEntry:AccessEntry",
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
        "aws:iam/rolePolicy:RolePolicy",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        "aws:s3/bucketVersioning:BucketVersioning",
        "aws:sns/topicSubscription:TopicSubscription",
        "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
        "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
        # When nodes of a Capacity Block are asked for: the block's own times, written again.
        "pulumi-python:dynamic/capacity:CapacityBlockSchedule",
        # The link of a file system to its bucket: files that are there stay.
        "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation",
    }
)
"""Types whose deletion or replacement interrupts nobody and loses nothing."""

_HOW = {
    Op.CREATE: "create",
    Op.UPDATE: "update",
    Op.DELETE: "delete",
    Op.REPLACE: "replace",
    Op.CREATE_REPLACEMENT: "replace",
    Op.DELETE_REPLACED: "replace",
}


@dataclass(frozen=True, slots=True)
class SeenStep:
    """What happened to one resource, whichever of an engine's step kinds said so.

    `diff` are the inputs that differ, `forced` those that force the replacement.
    """

    urn: str
    type: str
    name: str
    how: str
    diff: frozenset[str] = frozenset()
    forced: frozenset[str] = frozenset()


def seen_steps(events: Iterable[ResourceEvent]) -> tuple[SeenStep, ...]:
    """One step for each cloud resource that changes; a replacement counts once, components not at all."""
    found: dict[str, SeenStep] = {}
    for event in events:
        how = _HOW.get(event.op)
        if event.status != "done" or how is None or not _is_real(event.type):
            continue
        known = found.get(event.urn)
        forced = frozenset(event.replace_keys) | (known.forced if known else frozenset())
        diff = frozenset(event.diff) | forced | (known.diff if known else frozenset())
        if known is not None and known.how == "replace":
            how = "replace"
        found[event.urn] = SeenStep(event.urn, event.type, event.name, how, diff, forced)
    return tuple(found.values())


def _is_real(kind: str) -> bool:
    """Whether a type is a resource of the cloud: neither a component nor a provider nor the stack."""
    return not kind.startswith(("gpufleet:", "pulumi:"))


def effect_of(steps: Iterable[SeenStep]) -> Effect:
    """The strongest effect of the steps."""
    worst = Effect.NOTHING
    for step in steps:
        if step.how in ("delete", "replace") and step.type not in UNNOTICED:
            return Effect.REPLACEMENT
        if step.how == "update" and step.diff & ROLLS.get(step.type, frozenset()):
            worst = Effect.ROLLING
        elif worst is Effect.NOTHING:
            worst = Effect.IN_PLACE
    return worst


def summary(steps: Iterable[SeenStep]) -> dict[str, int]:
    """How many resources of which type each kind of step touches: `update eks.NodeGroup` -> 1."""
    counts = Counter(f"{step.how} {short_type(step.type)}" for step in steps)
    return dict(sorted(counts.items()))


def short_type(kind: str) -> str:
    """`aws:eks/nodeGroup:NodeGroup` as `eks.NodeGroup`."""
    package, module, name = kind.split(":")
    area = module.partition("/")[0]
    return f"{area}.{name}" if package == "aws" else f"{package}.{name}"
