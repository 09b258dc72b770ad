"""Launch template of a node group: interfaces, metadata service, volumes, reservation, tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import Component
from gpufleet.kinds import GP3_IOPS, GP3_MB_S, NODE_VOLUME_GIB

TAGGED_AT_LAUNCH = ("instance", "volume", "network-interface")
"""Resources of a launch that appear on a bill or in an inventory. A node group's tags do not reach them."""


@dataclass(frozen=True, kw_only=True)
class NodeInterfaceArgs:
    """One network interface of a node. The default is an ordinary primary interface."""

    network_card_index: int = 0
    device_index: int = 0
    interface_type: Literal["interface", "efa", "efa-only"] = "interface"


@dataclass(frozen=True, kw_only=True)
class VolumeArgs:
    """The root volume: gp3, always encrypted, with AWS's own EBS key by default."""

    size_gib: int = NODE_VOLUME_GIB
    iops: int = GP3_IOPS
    throughput: int = GP3_MB_S
    kms_key_id: pulumi.Input[str] | None = None


@dataclass(frozen=True, kw_only=True)
class LaunchTemplateArgs:
    """Inputs of `launch_template`. `image` is an AMI id, None for EKS's own image; `root_device` is the name
    of its root device. `user_data` is in base64.

    `spot_only`: an Auto Scaling group launches from it and never buys on demand. `tags_in_metadata`: nodes
    read their tags by the metadata service.
    """

    interfaces: Sequence[NodeInterfaceArgs]
    security_group_ids: Sequence[pulumi.Input[str]]
    volume: VolumeArgs
    instance_type: str | None
    capacity_block: bool
    spot_only: bool
    tags_in_metadata: bool
    capacity_reservation_id: pulumi.Input[str] | None
    reservation_group_arn: pulumi.Input[str] | None
    placement_group_name: pulumi.Input[str] | None
    public_ip: bool
    user_data: pulumi.Input[str] | None
    instance_profile_arn: pulumi.Input[str] | None
    image: pulumi.Input[str] | None
    root_device: Literal["/dev/xvda", "/dev/sda1"]


def launch_template(component: Component, name: str, args: LaunchTemplateArgs) -> aws.ec2.LaunchTemplate:
    """Create the launch template `name`; its newest version is the default.

    Tags are part of a version: a change of them creates a new version and rolls the nodes of an EKS node
    group.
    """
    return aws.ec2.LaunchTemplate(
        name,
        description=f"Nodes of {name}",
        update_default_version=True,
        image_id=args.image,
        instance_type=args.instance_type,
        iam_instance_profile=None
        if args.instance_profile_arn is None
        else aws.ec2.LaunchTemplateIamInstanceProfileArgs(arn=args.instance_profile_arn),
        # IMDSv2 only, one hop: pods and containers cannot reach the node's credentials. Pods that need
        # AWS get their own role (EKS Pod Identity).
        metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(
            http_endpoint="enabled",
            http_tokens="required",
            http_put_response_hop_limit=1,
            instance_metadata_tags="enabled" if args.tags_in_metadata else None,
        ),
        monitoring=aws.ec2.LaunchTemplateMonitoringArgs(enabled=True),
        block_device_mappings=[_root_volume(args)],
        network_interfaces=[_interface(args, interface) for interface in args.interfaces],
        placement=None
        if args.placement_group_name is None
        else aws.ec2.LaunchTemplatePlacementArgs(group_name=args.placement_group_name),
        capacity_reservation_specification=_reservation(args),
        instance_market_options=aws.ec2.LaunchTemplateInstanceMarketOptionsArgs(market_type="capacity-block")
        if args.capacity_block
        else None,
        tag_specifications=[
            aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=component.tags(name))
            # EC2 rejects tags for spot requests if a launch makes none.
            for kind in (*TAGGED_AT_LAUNCH, *(["spot-instances-request"] if args.spot_only else []))
        ],
        user_data=args.user_data,
        tags=component.tags(name),
        opts=component.child(),
    )


def _root_volume(args: LaunchTemplateArgs) -> aws.ec2.LaunchTemplateBlockDeviceMappingArgs:
    return aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
        device_name=args.root_device,
        ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
            volume_type="gp3",
            volume_size=args.volume.size_gib,
            iops=args.volume.iops,
            throughput=args.volume.throughput,
            encrypted="true",
            kms_key_id=args.volume.kms_key_id,
            delete_on_termination="true",
        ),
    )


def _interface(
    args: LaunchTemplateArgs, interface: NodeInterfaceArgs
) -> aws.ec2.LaunchTemplateNetworkInterfaceArgs:
    single = len(args.interfaces) == 1
    return aws.ec2.LaunchTemplateNetworkInterfaceArgs(
        network_card_index=interface.network_card_index,
        device_index=interface.device_index,
        interface_type=interface.interface_type,
        security_groups=list(args.security_group_ids),
        delete_on_termination="true",
        # EC2 rejects the parameter, true or false, for an instance with several interfaces.
        associate_public_ip_address=str(args.public_ip).lower() if single else None,
    )


def _reservation(
    args: LaunchTemplateArgs,
) -> aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs | None:
    if args.reservation_group_arn is not None:
        return aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(
            # Without it EC2 launches outside of the reservations when the group has no room, at the on-demand
            # price (EC2 User Guide, "Capacity Reservation groups"). It is the only preference that EC2 takes
            # with a target (EC2 API Reference, CapacityReservationSpecification).
            capacity_reservation_preference="capacity-reservations-only",
            capacity_reservation_target=(
                aws.ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(
                    capacity_reservation_resource_group_arn=args.reservation_group_arn
                )
            ),
        )
    if args.capacity_reservation_id is None:
        return None
    return aws.ec2.LaunchTemplateCapacityReservationSpecificationArgs(
        capacity_reservation_target=(
            aws.ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(
                capacity_reservation_id=args.capacity_reservation_id
            )
        )
    )
