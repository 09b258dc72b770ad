"""The effect of a change, read from the steps that an engine takes.

What an engine cannot see is declared here: which updates make AWS replace nodes one after another, and
which resources can be deleted and created again without interrupting anybody. Every other deletion or
replacement counts as a replacement, so a new resource type counts as one until it is listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpufleet.changes.observe import Effect, ObservedStep

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


def effect_of(steps: Iterable[ObservedStep]) -> Effect:
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
