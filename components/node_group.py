"""NodeGroup: nodes of one kind that scale together, in an EKS cluster or outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from gpufleet.components.autoscaled_groups import AutoscaledArgs, tag_scaling_group
from gpufleet.components.base import Component, field_of
from gpufleet.components.launch_template import (
    LaunchTemplateArgs,
    NodeInterfaceArgs,
    VolumeArgs,
    launch_template,
)
from gpufleet.components.node_capacity import (
    AllNodes,
    BlockNodes,
    NodeCapacity,
    OnDemandNodes,
    ReservationGroupNodes,
    ReservedNodes,
    SpotNodes,
)
from gpufleet.components.node_group_args import (
    AutoScalingNodesArgs,
    EksNodesArgs,
    HeldSize,
    LaunchedNodesArgs,
    NodeGroupArgs,
    TaintArgs,
    check_group,
    group_image,
)
from gpufleet.components.node_image import NodeImageArgs, image_id
from gpufleet.kinds import DRAIN_SUFFIX, DRAIN_TAG, DRAIN_TAG_VALUE, CapacityKind

EKS_CAPACITY_TYPE: Mapping[CapacityKind, str] = {
    "on-demand": "ON_DEMAND",
    "odcr": "ON_DEMAND",
    "spot": "SPOT",
    "capacity-block": "CAPACITY_BLOCK",
}

__all__ = [
    "AutoScalingNodesArgs",
    "AutoscaledArgs",
    "BlockNodes",
    "EksNodesArgs",
    "HeldSize",
    "LaunchedNodesArgs",
    "NodeCapacity",
    "NodeGroup",
    "NodeGroupArgs",
    "NodeImageArgs",
    "NodeInterfaceArgs",
    "OnDemandNodes",
    "ReservationGroupNodes",
    "ReservedNodes",
    "SpotNodes",
    "TaintArgs",
    "VolumeArgs",
]


class NodeGroup(Component):
    """A launch template, and an EKS managed node group or Auto Scaling group that launches from it.

    A Capacity Block group starts at 0 nodes: they can only launch while the block runs, from `start` until
    30 minutes before `end`. A spot group with `on_demand_fallback` gets a second, equal group that buys
    on-demand and starts at 0 nodes: neither kind of group falls back automatically, and an autoscaler (or
    Slurm's node weights) prefers the spot group.

    Rolling: every change of the launch template, tags included, creates a new version, and EKS replaces all
    nodes of the group, one at a time (in reserved and placed groups the old node is removed first). An Auto
    Scaling group uses the new version only for later launches.
    """

    launch_template_id: pulumi.Output[str]
    launch_template_arn: pulumi.Output[str]
    launch_template_version: pulumi.Output[str]
    group_names: Sequence[pulumi.Output[str]]
    """Names of the EKS node groups or the Auto Scaling groups; the main one first."""
    auto_scaling_group_names: Sequence[pulumi.Output[str]]
    """Names of the Auto Scaling groups that launch the nodes, also of EKS node groups; same order."""
    placement_group_name: pulumi.Output[str] | None

    def __init__(self, name: str, args: NodeGroupArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        check_group(name, args)
        super().__init__("gpufleet:node_group:NodeGroup", name, args.tags, opts)
        self.placement_group_name = self._placement(name, args.placement_group)
        template = launch_template(self, name, self._template_args(args))
        self.launch_template_id = template.id
        self.launch_template_arn = template.arn
        self.launch_template_version = template.latest_version.apply(str)
        groups = self._groups(name, args, template)
        self.group_names = [group for group, _ in groups]
        self.auto_scaling_group_names = [scaling for _, scaling in groups]
        self.register_outputs(
            {
                "launchTemplateId": self.launch_template_id,
                "groupNames": list(self.group_names),
                "autoScalingGroupNames": list(self.auto_scaling_group_names),
                "placementGroupName": self.placement_group_name,
            }
        )

    def _groups(
        self, name: str, args: NodeGroupArgs, template: aws.ec2.LaunchTemplate
    ) -> list[tuple[pulumi.Output[str], pulumi.Output[str]]]:
        if args.launched is not None:
            return []
        launch = self._eks_group if args.eks else self._auto_scaling_group
        groups = [launch(name, args, args.capacity, template)]
        if _falls_back(args.capacity):
            groups.append(launch(f"{name}-fallback", args, OnDemandNodes(), template))
        return groups

    def _placement(self, name: str, wanted: bool | pulumi.Input[str]) -> pulumi.Output[str] | None:
        if wanted is False:
            return None
        if wanted is True:
            group = aws.ec2.PlacementGroup(name, strategy="cluster", tags=self.tags(name), opts=self.child())
            made: pulumi.Output[str] = group.name
            return made
        return pulumi.Output.from_input(wanted)

    def _template_args(self, args: NodeGroupArgs) -> LaunchTemplateArgs:
        capacity, own = args.capacity, args.auto_scaling or args.launched
        block = isinstance(capacity, BlockNodes)
        return LaunchTemplateArgs(
            interfaces=args.interfaces,
            security_group_ids=args.security_group_ids,
            volume=args.volume,
            # EKS takes the types from the node group, which allows several; for a block it takes the one
            # type from the launch template.
            instance_type=args.instance_types[0] if block or not args.eks else None,
            capacity_block=block,
            # Not for EKS: it does not document that it requests only spot when it creates a group.
            spot_only=isinstance(capacity, SpotNodes)
            and not _falls_back(capacity)
            and args.auto_scaling is not None,
            tags_in_metadata=args.launched is not None,
            capacity_reservation_id=capacity.reservation_id
            if isinstance(capacity, ReservedNodes | BlockNodes)
            else None,
            reservation_group_arn=capacity.resource_group_arn
            if isinstance(capacity, ReservationGroupNodes)
            else None,
            placement_group_name=self.placement_group_name,
            public_ip=args.public_ip,
            user_data=args.user_data,
            instance_profile_arn=None if own is None else own.instance_profile_arn,
            image=None if (image := group_image(args)) is None else image_id(self, image),
            # Amazon Linux (EKS) and Ubuntu have different names for the root device.
            root_device="/dev/xvda" if args.eks else "/dev/sda1",
        )

    def _eks_group(
        self, label: str, args: NodeGroupArgs, capacity: NodeCapacity, template: aws.ec2.LaunchTemplate
    ) -> tuple[pulumi.Output[str], pulumi.Output[str]]:
        eks = args.eks
        assert eks is not None  # noqa: S101 - the caller chose this method by it
        least, desired, most, scales = _sizes(label, args, capacity)
        # With an image of the launch template EKS takes no version, and no AMI type other than CUSTOM.
        own = eks.image is not None
        # Whether or not its maximum is held: a group that is stopped for a while stays the autoscaler's.
        scaled = eks.autoscaled if _scales(args, capacity) else None
        group = aws.eks.NodeGroup(
            label,
            cluster_name=eks.cluster_name,
            version=None if own else eks.version,
            node_role_arn=eks.node_role_arn,
            ami_type="CUSTOM" if own else eks.ami_type,
            capacity_type=EKS_CAPACITY_TYPE[capacity.kind],
            instance_types=None if isinstance(capacity, BlockNodes) else list(args.instance_types),
            subnet_ids=args.subnet_ids,
            launch_template=aws.eks.NodeGroupLaunchTemplateArgs(
                id=template.id, version=template.latest_version.apply(str)
            ),
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(
                min_size=least, max_size=most, desired_size=desired
            ),
            update_config=aws.eks.NodeGroupUpdateConfigArgs(
                max_unavailable=1,
                # EKS launches new nodes before it stops old ones. A full reservation or placement group
                # has no room for both, and the update would wait for capacity until it fails.
                update_strategy="MINIMAL"
                if self.placement_group_name is not None or isinstance(capacity, AllNodes)
                else None,
            ),
            labels={
                **(scaled.labels if scaled else {}),
                **eks.labels,
                "gpufleet.io/capacity": capacity.kind,
            },
            taints=[
                aws.eks.NodeGroupTaintArgs(key=t.key, value=t.value, effect=_eks_effect(t.effect))
                for t in eks.taints
            ],
            tags={**(scaled.tags if scaled else {}), **_drain_tags(args, capacity), **self.tags(label)},
            opts=self.child(
                ignore_changes=["scalingConfig.desiredSize"] if scales else [],
                depends_on=list(args.after),
                # Two groups do not fit into one reservation: the old one must be deleted first.
                delete_before_replace=True if isinstance(capacity, AllNodes) else None,
            ),
        )
        made: pulumi.Output[str] = group.node_group_name
        scaling: pulumi.Output[str] = group.resources.apply(_auto_scaling_group)
        if scaled is not None:
            tag_scaling_group(label, scaling, scaled, self.child())
        for key, value in _drain_tags(args, capacity).items():
            # EKS does not pass on the tags of a node group.
            aws.autoscaling.Tag(
                f"{label}{DRAIN_SUFFIX}",
                autoscaling_group_name=scaling,
                tag=aws.autoscaling.TagTagArgs(key=key, value=value, propagate_at_launch=False),
                opts=self.child(),
            )
        return made, scaling

    def _auto_scaling_group(
        self, label: str, args: NodeGroupArgs, capacity: NodeCapacity, template: aws.ec2.LaunchTemplate
    ) -> tuple[pulumi.Output[str], pulumi.Output[str]]:
        least, desired, most, scales = _sizes(label, args, capacity)
        spot = isinstance(capacity, SpotNodes)
        mixed = spot or len(args.instance_types) > 1
        version = template.latest_version.apply(str)
        group = aws.autoscaling.Group(
            label,
            vpc_zone_identifiers=args.subnet_ids,
            min_size=least,
            max_size=most,
            desired_capacity=desired,
            launch_template=None
            if mixed
            else aws.autoscaling.GroupLaunchTemplateArgs(id=template.id, version=version),
            mixed_instances_policy=_mixed(args, capacity, template, version) if mixed else None,
            capacity_rebalance=True if spot else None,
            health_check_type="EC2",
            # `NodesInService` waits for the nodes: the provider would wait only once, and the next run would
            # pass without them.
            wait_for_capacity_timeout="0",
            tags=[
                aws.autoscaling.GroupTagArgs(key=key, value=value, propagate_at_launch=True)
                for key, value in self.tags(label).items()
            ]
            + [
                aws.autoscaling.GroupTagArgs(key=key, value=value, propagate_at_launch=False)
                for key, value in _drain_tags(args, capacity).items()
            ],
            opts=self.child(
                ignore_changes=["desiredCapacity"] if scales else [],
                depends_on=list(args.after),
            ),
        )
        made: pulumi.Output[str] = group.name
        return made, made


def _mixed(
    args: NodeGroupArgs,
    capacity: NodeCapacity,
    template: aws.ec2.LaunchTemplate,
    version: pulumi.Output[str],
) -> aws.autoscaling.GroupMixedInstancesPolicyArgs:
    spot = isinstance(capacity, SpotNodes)
    return aws.autoscaling.GroupMixedInstancesPolicyArgs(
        instances_distribution=aws.autoscaling.GroupMixedInstancesPolicyInstancesDistributionArgs(
            on_demand_base_capacity=0,
            on_demand_percentage_above_base_capacity=0 if spot else 100,
            # In the order of `instance_types`.
            on_demand_allocation_strategy="prioritized",
            spot_allocation_strategy="price-capacity-optimized",
            spot_max_price=capacity.max_price if isinstance(capacity, SpotNodes) else None,
        ),
        launch_template=aws.autoscaling.GroupMixedInstancesPolicyLaunchTemplateArgs(
            launch_template_specification=(
                aws.autoscaling.GroupMixedInstancesPolicyLaunchTemplateLaunchTemplateSpecificationArgs(
                    launch_template_id=template.id, version=version
                )
            ),
            overrides=[
                aws.autoscaling.GroupMixedInstancesPolicyLaunchTemplateOverrideArgs(instance_type=kind)
                for kind in args.instance_types
            ],
        ),
    )


def _drain_tags(args: NodeGroupArgs, capacity: NodeCapacity) -> dict[str, str]:
    """Return the tag by which the function of a spent budget may drain a group; none of other capacity."""
    return {DRAIN_TAG: DRAIN_TAG_VALUE} if args.drains and isinstance(capacity, SpotNodes) else {}


def _falls_back(capacity: NodeCapacity) -> bool:
    return isinstance(capacity, SpotNodes) and capacity.on_demand_fallback


def _start(args: NodeGroupArgs, capacity: NodeCapacity) -> tuple[int, int]:
    """Return the minimum and the initial size; 0 if nodes cannot or should not launch yet."""
    if args.starts_empty or isinstance(capacity, BlockNodes) or capacity is not args.capacity:
        return 0, 0
    desired = args.min_size if args.desired_size is None else args.desired_size
    return args.min_size, min(max(desired, args.min_size), args.max_size)


def _scales(args: NodeGroupArgs, capacity: NodeCapacity) -> bool:
    return args.min_size < args.max_size or _start(args, capacity)[0] < args.max_size


def _sizes(label: str, args: NodeGroupArgs, capacity: NodeCapacity) -> tuple[int, int, int, bool]:
    """Return minimum, initial size and maximum of a group, and whether something else owns its size."""
    least, desired = _start(args, capacity)
    held = args.held.get(label)
    if held is None:
        return least, desired, args.max_size, _scales(args, capacity)
    least = least if held.min_size is None else min(held.min_size, least)
    most = max(min(held.max_size, args.max_size), least)
    # With the size that it has: Pulumi's last known one would end nodes.
    return least, max(min(held.desired_size, most), least), most, False


def _auto_scaling_group(resources: Any) -> str:
    """Return the Auto Scaling group behind an EKS node group."""
    (scaling,) = field_of(resources[0], "autoscaling_groups")
    return str(field_of(scaling, "name"))


def _eks_effect(effect: str) -> str:
    return {"NoSchedule": "NO_SCHEDULE", "NoExecute": "NO_EXECUTE", "PreferNoSchedule": "PREFER_NO_SCHEDULE"}[
        effect
    ]
