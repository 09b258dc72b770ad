"""One node group of a site, with the reservation that it launches into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from gpufleet.components.capacity_block_schedule import CapacityBlockSchedule
from gpufleet.components.launched_nodes import LaunchedNodes
from gpufleet.components.node_group import (
    AutoscaledArgs,
    AutoScalingNodesArgs,
    BlockNodes,
    EksNodesArgs,
    LaunchedNodesArgs,
    NodeCapacity,
    NodeGroup,
    NodeGroupArgs,
    SpotNodes,
)
from gpufleet.plan.marks import lasting_tags
from gpufleet.plan.models import AutoscaledPlan, NodeGroupPlan
from gpufleet.stacks.node_args import interface_args, node_image, node_labels, taint_args, volume_args
from gpufleet.stacks.purchases import buy_capacity
from gpufleet.stacks.site_parts import SiteParts
from gpufleet.user_data import encoded, mime_document


@dataclass(frozen=True)
class NodeGroupOutputs:
    """A node group: its component, how its nodes are bought and in which subnets, its names in AWS, and its
    exports."""

    component: NodeGroup
    capacity: NodeCapacity
    names: Sequence[pulumi.Output[str]]
    subnet_ids: pulumi.Input[Sequence[pulumi.Input[str]]]
    outputs: dict[str, Any]


def build_node_group(
    name: str, group: NodeGroupPlan, parts: SiteParts, *, ordered: bool = False
) -> NodeGroupOutputs:
    """Create the group, and the reservation that it launches into. An `ordered` group starts with no
    nodes."""
    subnets = parts.network.public_subnet_ids if group.public_ip else parts.network.private_subnet_ids
    purchase = buy_capacity(name, group, parts)
    efa_groups = [parts.network.efa_security_group_id] if group.efa else []
    cluster = parts.cluster
    image = node_image(group.image_kind, group.image)
    subnet_ids = purchase.subnet_ids or [subnets[zone] for zone in group.zones]
    built = NodeGroup(
        name,
        NodeGroupArgs(
            instance_types=group.instance_types,
            capacity=purchase.capacity,
            min_size=group.capacity.min,
            max_size=group.capacity.max,
            desired_size=group.capacity.desired,
            subnet_ids=subnet_ids,
            security_group_ids=[parts.client_group, *efa_groups],
            interfaces=[interface_args(each) for each in group.network_interfaces],
            placement_group=purchase.placement_group,
            public_ip=group.public_ip,
            volume=volume_args(group.volume),
            user_data=_user_data(group, parts),
            eks=None
            if cluster is None
            else EksNodesArgs(
                cluster_name=cluster.cluster_name,
                version=cluster.version,
                node_role_arn=parts.roles.node_role_arn,
                image=image,
                labels=node_labels(group),
                taints=[taint_args(each) for each in group.taints],
                autoscaled=autoscaled_args(cluster.cluster_name, group.autoscaled),
            ),
            auto_scaling=None
            if cluster is not None or parts.joins is not None
            else AutoScalingNodesArgs(instance_profile_arn=parts.roles.instance_profile_arn, image=image),
            launched=None
            if parts.joins is None
            else LaunchedNodesArgs(instance_profile_arn=parts.roles.instance_profile_arn, image=image),
            after=cluster.ready if cluster is not None else parts.network.nat_ready,
            held=parts.stopped,
            starts_empty=ordered,
            drains=parts.drains,
            tags=group.tags,
        ),
        parts.opts,
    )
    if parts.joins is not None:
        spot = purchase.capacity if isinstance(purchase.capacity, SpotNodes) else None
        LaunchedNodes(
            name,
            launch_template_id=built.launch_template_id,
            instance_types=group.instance_types,
            spot=spot is not None and not spot.on_demand_fallback,
            most=group.capacity.max,
            max_price=None if spot is None else spot.max_price,
            tags=lasting_tags(group.tags),
            region=parts.region,
            client=parts.settings.aws_client,
            opts=pulumi.ResourceOptions(parent=built),
        )
    elif isinstance(purchase.capacity, BlockNodes):
        CapacityBlockSchedule(
            name,
            group_name=built.auto_scaling_group_names[0],
            reservation_id=purchase.capacity.reservation_id,
            nodes=group.capacity.max,
            region=parts.region,
            client=parts.settings.aws_client,
            stops_only=ordered,
            extended_to=purchase.extended_to,
            opts=pulumi.ResourceOptions(parent=built),
        )
    outputs = group_outputs(
        group,
        kind=_kind(parts),
        group_names=list(built.group_names),
        launch_template_id=built.launch_template_id,
        placement_group=built.placement_group_name,
        reservation=purchase.reservation,
    )
    return NodeGroupOutputs(built, purchase.capacity, built.group_names, subnet_ids, outputs)


def group_outputs(
    group: NodeGroupPlan,
    *,
    kind: str,
    group_names: Sequence[pulumi.Input[str]],
    launch_template_id: pulumi.Input[str] | None,
    placement_group: pulumi.Input[str | None] | None,
    reservation: object,
) -> dict[str, Any]:
    """Return the exports of a group: what the plan says, and what was made for it."""
    return {
        "kind": kind,
        "group_names": group_names,
        "instance_types": list(group.instance_types),
        "gpu": group.gpu,
        "gpus_per_node": group.gpus_per_node,
        "accelerator": group.accelerator.name if group.accelerator is not None else "",
        "accelerators_per_node": group.accelerator.count if group.accelerator is not None else 0,
        "capacity": group.capacity.kind,
        "launch_template_id": launch_template_id,
        "placement_group": placement_group,
        "reservation": reservation,
    }


def _kind(parts: SiteParts) -> str:
    if parts.cluster is not None:
        return "eks-node-group"
    return "auto-scaling-group" if parts.joins is None else "slurm-partition"


def autoscaled_args(cluster: pulumi.Input[str], plan: AutoscaledPlan | None) -> AutoscaledArgs | None:
    """Return the component arguments of a group whose size belongs to the autoscaler."""
    if plan is None:
        return None
    return AutoscaledArgs(
        cluster=cluster, labels=plan.node_labels, tags=plan.tags, scaling_tags=plan.scaling_tags
    )


def _user_data(group: NodeGroupPlan, parts: SiteParts) -> pulumi.Input[str] | None:
    """Return the group's user data; nodes join their cluster, or their Slurm, by theirs."""
    if parts.cluster is not None:
        taints = [f"{taint.key}={taint.value}:{taint.effect}" for taint in group.taints]
        return parts.cluster.user_data(group.user_data, taints)
    if parts.joins is not None:
        return parts.joins.apply(lambda join: encoded(mime_document([join, *group.user_data])))
    return encoded(mime_document(group.user_data)) if group.user_data else None
