"""One node group of a site, with the reservation that it launches into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from gpufleet.components.capacity import (
    CapacityBlock,
    CapacityBlockArgs,
    OnDemandReservation,
    OnDemandReservationArgs,
)
from gpufleet.components.capacity_block_schedule import CapacityBlockSchedule
from gpufleet.components.cluster import EksCluster
from gpufleet.components.device_plugins import EFA_NODE_LABEL
from gpufleet.components.identity import IamRoles
from gpufleet.components.network import Network
from gpufleet.components.node_group import (
    AutoScalingNodesArgs,
    EksNodesArgs,
    NodeGroup,
    NodeGroupArgs,
    NodeInterfaceArgs,
    TaintArgs,
    VolumeArgs,
)
from gpufleet.errors import InputError
from gpufleet.plan.models import NodeGroupPlan, VolumePlan
from gpufleet.stacks.settings import Settings


@dataclass(frozen=True)
class SiteParts:
    """What a node group is built into. `client_group` is the security group that nodes share."""

    region: str
    network: Network
    roles: IamRoles
    cluster: EksCluster | None
    client_group: pulumi.Output[str]
    settings: Settings
    opts: pulumi.ResourceOptions


@dataclass(frozen=True)
class BuiltGroup:
    """A node group: its names in AWS, and what the stack exports of it."""

    names: Sequence[pulumi.Output[str]]
    outputs: dict[str, Any]


@dataclass(frozen=True)
class _Reservation:
    """Where a group's capacity comes from: nothing of it for what is not reserved."""

    id: pulumi.Input[str] | None = None
    subnet_ids: pulumi.Input[Sequence[pulumi.Input[str]]] | None = None
    placement_group: bool | pulumi.Input[str] = False
    outputs: dict[str, Any] | None = None


def build_node_group(name: str, group: NodeGroupPlan, around: SiteParts) -> BuiltGroup:
    """The group, and the reservation that it launches into."""
    if group.capacity.kind == "capacity-block":
        _refuse_assumed_roles(name, around.settings)
    subnets = around.network.public_subnet_ids if group.public_ip else around.network.private_subnet_ids
    reservation = _reserve(name, group, around)
    efa_groups = [around.network.efa_security_group_id] if group.efa else []
    cluster = around.cluster
    labels = dict(group.labels) | ({EFA_NODE_LABEL: "true"} if group.efa else {})
    built = NodeGroup(
        name,
        NodeGroupArgs(
            instance_types=group.instance_types,
            capacity=group.capacity.kind,
            min_size=group.capacity.min,
            max_size=group.capacity.max,
            desired_size=group.capacity.desired,
            subnet_ids=reservation.subnet_ids or [subnets[zone] for zone in group.zones],
            security_group_ids=[around.client_group, *efa_groups],
            interfaces=[
                NodeInterfaceArgs(
                    network_card_index=interface.network_card_index,
                    device_index=interface.device_index,
                    interface_type=interface.interface_type,
                )
                for interface in group.network_interfaces
            ],
            placement_group=reservation.placement_group,
            capacity_reservation_id=reservation.id,
            on_demand_fallback=group.capacity.on_demand_fallback,
            spot_max_price=None
            if group.capacity.spot_max_price is None
            else f"{group.capacity.spot_max_price:f}",
            public_ip=group.public_ip,
            volume=volume_args(group.volume),
            eks=None
            if cluster is None
            else EksNodesArgs(
                cluster_name=cluster.cluster_name,
                version=cluster.version,
                node_role_arn=around.roles.node_role_arn,
                ami_type=group.image,
                labels=labels,
                taints=[TaintArgs(key=t.key, value=t.value, effect=t.effect) for t in group.taints],
            ),
            auto_scaling=None
            if cluster is not None
            else AutoScalingNodesArgs(
                instance_profile_arn=around.roles.instance_profile_arn, image_parameter=group.image
            ),
            after=cluster.ready if cluster is not None else around.network.nat_ready,
            tags=group.tags,
        ),
        around.opts,
    )
    if group.capacity.kind == "capacity-block" and reservation.id is not None:
        CapacityBlockSchedule(
            name,
            group_name=built.auto_scaling_group_names[0],
            reservation_id=reservation.id,
            nodes=group.capacity.max,
            region=around.region,
            client=around.settings.aws_client,
            opts=pulumi.ResourceOptions(parent=built),
        )
    outputs = {
        "kind": "auto-scaling-group" if cluster is None else "eks-node-group",
        "group_names": list(built.group_names),
        "instance_types": list(group.instance_types),
        "gpu": group.gpu,
        "gpus_per_node": group.gpus_per_node,
        "capacity": group.capacity.kind,
        "launch_template_id": built.launch_template_id,
        "placement_group": built.placement_group_name,
        "reservation": reservation.outputs,
    }
    return BuiltGroup(built.group_names, outputs)


def volume_args(volume: VolumePlan) -> VolumeArgs:
    """The root volume of a plan as a component takes it."""
    return VolumeArgs(size_gib=volume.size_gib, iops=volume.iops, throughput=volume.throughput)


def _refuse_assumed_roles(name: str, settings: Settings) -> None:
    """Blocks are looked up and scheduled with boto3, which would ask another account than the provider."""
    if settings.aws_provider.get("assume_roles"):
        raise InputError(
            f"node group {name}: a Capacity Block cannot be looked up with aws:assumeRoles",
            remedy="name the role in a profile of the AWS configuration (role_arn, source_profile), run "
            "`pulumi config set aws:profile <profile>` and `pulumi config rm aws:assumeRoles`",
        )


def _reserve(name: str, group: NodeGroupPlan, around: SiteParts) -> _Reservation:
    capacity = group.capacity
    if capacity.kind not in ("odcr", "capacity-block"):
        return _Reservation(placement_group=group.placement_group)
    if capacity.reservation_id is not None:
        return _existing(group, around)
    return _reserve_now(name, group, around) if capacity.kind == "odcr" else _buy(name, group, around)


def _existing(group: NodeGroupPlan, around: SiteParts) -> _Reservation:
    capacity = group.capacity
    zones = [capacity.reservation_zone] if capacity.reservation_zone else list(group.zones)
    return _Reservation(
        id=capacity.reservation_id,
        subnet_ids=[around.network.private_subnet_ids[zone] for zone in zones],
        placement_group=capacity.reservation_placement_group or False,
        outputs={"id": capacity.reservation_id, "zone": zones[0]},
    )


def _reserve_now(name: str, group: NodeGroupPlan, around: SiteParts) -> _Reservation:
    zone = group.capacity.reservation_zone or group.zones[0]
    made = OnDemandReservation(
        name,
        OnDemandReservationArgs(
            instance_type=group.instance_type,
            count=group.capacity.max,
            zone=zone,
            placement_group=group.placement_group,
            tags=group.tags,
        ),
        around.opts,
    )
    return _Reservation(
        id=made.reservation_id,
        subnet_ids=[around.network.private_subnet_ids[zone]],
        placement_group=made.placement_group_name or False,
        outputs={"id": made.reservation_id, "zone": zone},
    )


def _buy(name: str, group: NodeGroupPlan, around: SiteParts) -> _Reservation:
    capacity, settings = group.capacity, around.settings
    if capacity.duration is None or capacity.start is None:
        raise AssertionError(f"{name}: a checked plan says when and for how long a Capacity Block is bought")
    block = CapacityBlock(
        name,
        CapacityBlockArgs(
            instance_type=group.instance_type,
            count=capacity.max,
            duration=capacity.duration,
            start=capacity.start,
            zones=group.zones,
            max_upfront_usd=settings.allow_upfront,
            protect=settings.protect,
            client=settings.aws_client,
            tags=group.tags,
        ),
        around.opts,
    )
    by_zone = {zone: around.network.private_subnet_ids[zone] for zone in group.zones}
    subnet_ids = pulumi.Output.all(block.zone, by_zone).apply(lambda found: [found[1][found[0]]])
    return _Reservation(
        id=block.reservation_id,
        subnet_ids=subnet_ids,
        outputs={
            "id": block.reservation_id,
            "zone": block.zone,
            "start": block.start,
            "end": block.end,
            "upfront_fee": block.upfront_fee,
        },
    )
