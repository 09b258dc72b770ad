"""The effect of a change, from the steps of an engine.

Facts that an engine cannot see are declared here: which updates make AWS replace nodes one after another, and
which resources can be deleted and created again without an interruption. Every other deletion or
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
        # Permissions and rules: the new one exists before the old one is deleted, or nothing depends on it.
        "aws:eks/accessEntry:AccessEntry",
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
        "aws:iam/rolePolicy:RolePolicy",
        # Instances run on outside of the reservation (EC2 User Guide, "Stop sharing a Capacity Reservation").
        "aws:ram/principalAssociation:PrincipalAssociation",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        "aws:s3/bucketVersioning:BucketVersioning",
        "aws:sns/topicSubscription:TopicSubscription",
        "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
        "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
        # AWS takes no extension back, and the block keeps its end.
        "pulumi-python:dynamic/capacity:CapacityBlockExtension",
        # Start times of Capacity Block nodes: the times of the block, written again.
        "pulumi-python:dynamic/capacity:CapacityBlockSchedule",
        # The wait for nodes that run.
        "pulumi-python:dynamic/node_group:NodesInService",
        # The nodes of an order belong to its groups.
        "pulumi-python:dynamic/node_group:OrderedCapacity",
        # The link of a file system to its bucket: existing files stay.
        "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation",
    }
)
"""Types whose deletion or replacement interrupts and loses nothing."""


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
