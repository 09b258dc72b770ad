"""Inputs of `NodeGroup`, and what it refuses of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pulumi

from gpufleet.catalog.images import EKS_GPU_IMAGE
from gpufleet.components.autoscaled_groups import AutoscaledArgs
from gpufleet.components.base import Tags
from gpufleet.components.launch_template import NodeInterfaceArgs, VolumeArgs
from gpufleet.components.node_capacity import BlockNodes, NodeCapacity, OnDemandNodes, SpotNodes
from gpufleet.components.node_image import NodeImageArgs, check_architecture, check_image
from gpufleet.errors import InputError


@dataclass(frozen=True, kw_only=True)
class TaintArgs:
    """A Kubernetes taint, with Kubernetes's names of effects (`NoSchedule`)."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"


@dataclass(frozen=True, kw_only=True)
class EksNodesArgs:
    """Settings of an EKS managed node group.

    With `image`, the launch template has one image, which only a change of `image` changes: Amazon Linux 2023
    with nodeadm, from EKS or your own. `user_data` must then have the NodeConfig by which nodes join
    (`EksCluster.user_data`), since EKS adds nothing. Without it, EKS takes its newest image of `ami_type` for
    `version`, at creation and at each new version of the launch template, whatever the reason (EKS API
    Reference, UpdateNodegroupVersion; pulumi_aws sends a release version only when it changes). A change
    between the two replaces the group, which EKS requires.

    With `autoscaled`, the sizes of the groups that can change belong to a Cluster Autoscaler.
    """

    cluster_name: pulumi.Input[str]
    version: pulumi.Input[str] | None = None
    node_role_arn: pulumi.Input[str]
    ami_type: str = EKS_GPU_IMAGE
    image: NodeImageArgs | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[TaintArgs] = ()
    autoscaled: AutoscaledArgs | None = None


@dataclass(frozen=True, kw_only=True)
class AutoScalingNodesArgs:
    """Settings of an Auto Scaling group: its nodes' instance profile and image."""

    instance_profile_arn: pulumi.Input[str]
    image: NodeImageArgs


@dataclass(frozen=True, kw_only=True)
class LaunchedNodesArgs:
    """Settings of nodes that a scheduler outside of AWS launches from the launch template (`SlurmLauncher`).

    They read their names from their tags by the metadata service, so keys of tags have letters, digits and
    `+-=.,_:@` only.
    """

    instance_profile_arn: pulumi.Input[str]
    image: NodeImageArgs


@dataclass(frozen=True, kw_only=True)
class HeldSize:
    """The maximum and the size of a group that must not grow; and the minimum of one that drains."""

    max_size: int
    desired_size: int
    min_size: int | None = None


@dataclass(frozen=True, kw_only=True)
class NodeGroupArgs:
    """Inputs of `NodeGroup`. Set exactly one of `eks`, `auto_scaling` and `launched`; with `launched` there
    is a launch template and no group, and sizes and `subnet_ids` are those of whoever launches.

    `interfaces` is the launch template's exact layout. `placement_group` True creates one here; a name
    refers to an existing one. With `ReservedNodes` or `BlockNodes`, `subnet_ids` must be in the zone of the
    reservation or block. Nodes launch once everything in `after` exists (routes, add-ons).

    `desired_size` is the initial size, limited to `min_size` and `max_size`. If these differ, an autoscaler
    or scheduler owns it afterwards, and Pulumi ignores changes of it. Pulumi then sends its last known size
    with new limits, and AWS rejects a size outside them: refresh first.

    `user_data` is in base64; EKS takes a MIME document only.

    `held` has sizes by name (of this group, of its `-fallback`) that were set outside and must not grow: they
    take the place of larger ones.

    With `drains` the group of spot nodes has the tag by which the function of a spent budget may drain it;
    its on-demand fallback has not.

    With `starts_empty` the group has no nodes at first and no minimum; an `OrderedCapacity` sets its size.
    """

    instance_types: Sequence[str]
    capacity: NodeCapacity = field(default_factory=OnDemandNodes)
    min_size: int
    max_size: int
    desired_size: int | None = None
    subnet_ids: pulumi.Input[Sequence[pulumi.Input[str]]]
    security_group_ids: Sequence[pulumi.Input[str]]
    interfaces: Sequence[NodeInterfaceArgs] = (NodeInterfaceArgs(),)
    placement_group: bool | pulumi.Input[str] = False
    public_ip: bool = False
    volume: VolumeArgs = field(default_factory=VolumeArgs)
    user_data: pulumi.Input[str] | None = None
    eks: EksNodesArgs | None = None
    auto_scaling: AutoScalingNodesArgs | None = None
    launched: LaunchedNodesArgs | None = None
    after: Sequence[pulumi.Resource] = ()
    held: Mapping[str, HeldSize] = field(default_factory=dict)
    starts_empty: bool = False
    drains: bool = False
    tags: Tags


def group_image(args: NodeGroupArgs) -> NodeImageArgs | None:
    """Return the image that the launch template has; None for EKS's own."""
    own = args.auto_scaling or args.launched
    if own is not None:
        return own.image
    return args.eks.image if args.eks is not None else None


def check_group(name: str, args: NodeGroupArgs) -> None:
    """Raise InputError for inputs that do not fit together."""
    if sum(each is not None for each in (args.eks, args.auto_scaling, args.launched)) != 1:
        raise InputError(
            f"node group {name}: needs exactly one of eks, auto_scaling and launched",
            remedy="set eks=EksNodesArgs(...) in a cluster, else auto_scaling=AutoScalingNodesArgs(...), or"
            " launched=LaunchedNodesArgs(...) where Slurm launches the nodes",
        )
    if (image := group_image(args)) is not None:
        check_image(f"node group {name}", image)
    ami_type = args.eks.ami_type if args.eks is not None else None
    check_architecture(f"node group {name}", args.instance_types, ami_type, image)
    if not isinstance(args.capacity, NodeCapacity):
        raise InputError(
            f"node group {name}: capacity is {args.capacity!r}, which is not a kind of capacity",
            remedy="use OnDemandNodes(), SpotNodes(), ReservedNodes(...), ReservationGroupNodes(...) or"
            " BlockNodes(...)",
        )
    block = isinstance(args.capacity, BlockNodes)
    if block and args.placement_group is not False:
        raise InputError(
            f"node group {name}: a Capacity Block cannot launch into a placement group",
            remedy="remove placement_group: AWS places the block's instances close together",
        )
    if block and len(args.instance_types) != 1:
        raise InputError(
            f"node group {name}: a Capacity Block has one instance type, not {len(args.instance_types)}",
            remedy="list only the block's type",
        )
    if isinstance(args.capacity, SpotNodes) and args.capacity.max_price is not None and args.eks is not None:
        raise InputError(
            f"node group {name}: max_price is for spot capacity of an Auto Scaling group",
            remedy="remove max_price: EKS node groups do not support it",
        )
    if args.public_ip and len(args.interfaces) > 1:
        raise InputError(
            f"node group {name}: no public address at launch with {len(args.interfaces)} interfaces",
            remedy="set public_ip=False: nodes reach the internet through NAT",
        )
