"""What sets the sizes of a Kubernetes site's node groups."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from gpufleet.kinds import AutoscalerKind, ChangedNodes, Expander, ReservedNodesIn
from gpufleet.spec.base import Model
from gpufleet.spec.fields import Switch
from gpufleet.spec.quantity import Duration


class Autoscaler(Model):
    """An autoscaler of a Kubernetes site: it adds nodes for pods that wait, and ends nodes without work.

    It keeps to `min` and `max` of each node group. Groups of a fixed size, and groups that an order of
    `ordered_capacity` draws from, are not its own; reservations and Capacity Blocks are if `reserved_nodes`
    says so.
    """

    kind: Annotated[
        AutoscalerKind,
        Field(
            description="cluster-autoscaler (Kubernetes's own) for EKS node groups; karpenter, whose node"
            " pools take the place of the groups that it scales; or none: another program of yours sets"
            " the sizes.",
            examples=["karpenter"],
        ),
    ] = "cluster-autoscaler"
    scale_down: Annotated[Switch, Field(description="Ends nodes without work; else it only adds nodes.")] = (
        True
    )
    scale_down_after: Annotated[
        Duration,
        Field(
            description="How long a node must be without work before it ends, from 1 min.",
            examples=["10 min"],
        ),
    ] = Duration(timedelta(minutes=10))
    expander: Annotated[
        Expander,
        Field(
            description="With cluster-autoscaler, the group that grows if several fit: the one that leaves"
            " the least CPU and memory unused, or (priority) the cheapest kind of capacity: spot, then"
            " on-demand. Each decides where the other finds no difference."
        ),
    ] = "least-waste"
    changed_nodes: Annotated[
        ChangedNodes,
        Field(
            description="With karpenter, when nodes end whose image, user data, labels or other settings have"
            " changed: one-at-a-time (their pods are evicted, as in a node group), or when-idle (a node with"
            " work keeps its old settings)."
        ),
    ] = "one-at-a-time"
    reserved_nodes: Annotated[
        ReservedNodesIn,
        Field(
            description="With karpenter, what launches nodes into reservations and Capacity Blocks:"
            " node-groups (all nodes, at once or from the block's start to its end), or node-pools (nodes"
            " start for pods that wait, before any that are bought, and end without work; the capacity is"
            " paid for all the same)."
        ),
    ] = "node-groups"
