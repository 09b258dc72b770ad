"""One node group of a site, with the reservation that it launches into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import pulumi

from gpufleet.components.capacity import (
    CapacityBlock,
    CapacityBlockArgs,
    OnDemandReservation,
    OnDemandReservationArgs,
)
from gpufleet.components.capacity_block_extension import extend_block
from gpufleet.components.capacity_block_schedule import CapacityBlockSchedule
from gpufleet.components.cluster import EksCluster
from gpufleet.components.identity import IamRoles
from gpufleet.components.launched_nodes import LaunchedNodes
from gpufleet.components.network import Network
from gpufleet.components.node_group import (
    AutoscaledArgs,
    AutoScalingNodesArgs,
    BlockNodes,
    EksNodesArgs,
    HeldSize,
    LaunchedNodesArgs,
    NodeCapacity,
    NodeGroup,
    NodeGroupArgs,
    OnDemandNodes,
    ReservationGroupNodes,
    ReservedNodes,
    SpotNodes,
)
from gpufleet.errors import InputError
from gpufleet.plan.capacity_models import (
    CapacityBlockPlan,
    ExistingBlockPlan,
    ExistingReservationPlan,
    OnDemandPlan,
    ReservationGroupPlan,
    ReservationPlan,
    SpotPlan,
)
from gpufleet.plan.marks import lasting_tags
from gpufleet.plan.models import AutoscaledPlan, NodeGroupPlan
from gpufleet.stacks.node_args import interface_args, node_image, node_labels, taint_args, volume_args
from gpufleet.stacks.settings import StackSettings
from gpufleet.user_data import encoded, mime_document


@dataclass(frozen=True)
class SiteParts:
    """The parts of a site that a node group needs. `client_group` is the security group that nodes share,
    `stopped` has resource names of groups that keep their maximum, `joins` the user data by which nodes join
    the Slurm that launches them, `drains` whether a spent budget drains spot groups."""

    region: str
    network: Network
    roles: IamRoles
    cluster: EksCluster | None
    client_group: pulumi.Output[str]
    settings: StackSettings
    stopped: Mapping[str, HeldSize]
    opts: pulumi.ResourceOptions
    joins: pulumi.Output[str] | None = None
    drains: bool = False


@dataclass(frozen=True)
class NodeGroupOutputs:
    """A node group: its component, how its nodes are bought and in which subnets, its names in AWS, and its
    exports."""

    component: NodeGroup
    capacity: NodeCapacity
    names: Sequence[pulumi.Output[str]]
    subnet_ids: pulumi.Input[Sequence[pulumi.Input[str]]]
    outputs: dict[str, Any]


@dataclass(frozen=True)
class Purchase:
    """How a group's nodes are bought. Reserved ones have their own subnets and exports."""

    capacity: NodeCapacity
    placement_group: bool | pulumi.Input[str] = False
    subnet_ids: pulumi.Input[Sequence[pulumi.Input[str]]] | None = None
    reservation: dict[str, Any] | None = None
    extended_to: pulumi.Output[str] | None = None


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


def _refuse_assumed_roles(name: str, settings: StackSettings) -> None:
    """Raise for assumed roles: boto3 searches and schedules blocks, and would use another account."""
    if settings.aws_provider.get("assume_roles"):
        raise InputError(
            f"node group {name}: a Capacity Block cannot be used with aws:assumeRoles",
            remedy="set the role in a profile of the AWS configuration (role_arn, source_profile), run "
            "`pulumi config set aws:profile <profile>` and `pulumi config rm aws:assumeRoles`",
        )


def buy_capacity(name: str, group: NodeGroupPlan, parts: SiteParts) -> Purchase:
    """Return how the nodes of a group are bought. A reservation or block of the plan is made."""
    match group.capacity:
        case OnDemandPlan():
            return Purchase(OnDemandNodes(), group.placement_group)
        case SpotPlan(on_demand_fallback=fallback, spot_max_price=price):
            spot = SpotNodes(on_demand_fallback=fallback, max_price=None if price is None else f"{price:f}")
            return Purchase(spot, group.placement_group)
        case ReservationPlan() as wanted:
            return _reservation(name, group, wanted, parts)
        case ExistingReservationPlan() as held:
            return Purchase(
                ReservedNodes(reservation_id=held.reservation_id),
                held.reservation_placement_group or False,
                _private_subnets(parts, held.reservation_zone),
                {"id": held.reservation_id, "zone": held.reservation_zone},
            )
        case ReservationGroupPlan() as held:
            return Purchase(
                ReservationGroupNodes(resource_group_arn=held.reservation_group),
                held.reservation_placement_group or False,
                [parts.network.private_subnet_ids[zone] for zone in held.zones],
                {"group": held.reservation_group, "zones": list(held.zones)},
            )
        case CapacityBlockPlan() as wanted:
            _refuse_assumed_roles(name, parts.settings)
            return _block(name, group, wanted, parts)
        case ExistingBlockPlan() as held:
            _refuse_assumed_roles(name, parts.settings)
            return _existing_block(name, group, held, parts)
        case other:
            assert_never(other)


def _private_subnets(parts: SiteParts, zone: str) -> list[pulumi.Output[str]]:
    return [parts.network.private_subnet_ids[zone]]


def _reservation(name: str, group: NodeGroupPlan, wanted: ReservationPlan, parts: SiteParts) -> Purchase:
    made = OnDemandReservation(
        name,
        OnDemandReservationArgs(
            instance_type=group.instance_type,
            count=wanted.instances,
            zone=wanted.reservation_zone,
            placement_group=group.placement_group,
            share_with=wanted.share_with,
            share_outside_organization=wanted.share_outside_organization,
            tags=group.tags,
        ),
        parts.opts,
    )
    return Purchase(
        ReservedNodes(reservation_id=made.reservation_id),
        made.placement_group_name or False,
        _private_subnets(parts, wanted.reservation_zone),
        {"id": made.reservation_id, "zone": wanted.reservation_zone}
        | ({"share": made.share_arn} if made.share_arn is not None else {}),
    )


def _block(name: str, group: NodeGroupPlan, wanted: CapacityBlockPlan, parts: SiteParts) -> Purchase:
    settings = parts.settings
    block = CapacityBlock(
        name,
        CapacityBlockArgs(
            instance_type=group.instance_type,
            count=wanted.nodes,
            duration=wanted.duration,
            start=wanted.start,
            zones=wanted.zones,
            extensions=wanted.extensions,
            max_upfront_usd=settings.allow_upfront,
            protect=settings.protect,
            client=settings.aws_client,
            tags=group.tags,
        ),
        parts.opts,
    )
    by_zone = {zone: parts.network.private_subnet_ids[zone] for zone in wanted.zones}
    subnet_ids = pulumi.Output.all(block.zone, by_zone).apply(lambda found: [found[1][found[0]]])
    return Purchase(
        BlockNodes(reservation_id=block.reservation_id),
        subnet_ids=subnet_ids,
        reservation={
            "id": block.reservation_id,
            "zone": block.zone,
            "start": block.start,
            "end": block.end,
            "upfront_fee": block.upfront_fee,
        },
        extended_to=None if block.last_extension is None else block.end,
    )


def _existing_block(name: str, group: NodeGroupPlan, held: ExistingBlockPlan, parts: SiteParts) -> Purchase:
    settings = parts.settings
    last = extend_block(
        name,
        reservation_id=held.reservation_id,
        instance_type=group.instance_type,
        count=held.nodes,
        duration=held.duration,
        extensions=held.extensions,
        region=parts.region,
        max_upfront_usd=settings.allow_upfront,
        client=settings.aws_client,
        opts=pulumi.ResourceOptions.merge(parts.opts, pulumi.ResourceOptions(protect=settings.protect)),
    )
    return Purchase(
        BlockNodes(reservation_id=held.reservation_id),
        subnet_ids=_private_subnets(parts, held.reservation_zone),
        reservation={"id": held.reservation_id, "zone": held.reservation_zone}
        | ({} if last is None else {"end": last.end_date}),
        extended_to=None if last is None else last.end_date,
    )
