"""Reservations that a node group launches into, billed by the hour or paid upfront."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import Component, Tags
from gpufleet.components.capacity_block_extension import CapacityBlockExtension, extend_block
from gpufleet.components.capacity_block_offering import CapacityBlockOffering
from gpufleet.components.shares import share

PLATFORM = "Linux/UNIX"


@dataclass(frozen=True, kw_only=True)
class OnDemandReservationArgs:
    """Inputs of `OnDemandReservation`. With `placement_group` the capacity is reserved in a cluster placement
    group, which cannot use capacity reserved outside it.

    `share_with` are the principals that may launch into it (AWS RAM): account ids, and ARNs of an
    organization or of organizational units. With `share_outside_organization` accounts of others may be too.
    """

    instance_type: str
    count: int
    zone: str
    placement_group: bool = False
    share_with: Sequence[str] = ()
    share_outside_organization: bool = False
    tags: Tags


class OnDemandReservation(Component):
    """An On-Demand Capacity Reservation: billed from creation to deletion, used or not.

    Only launches that target it use it (`targeted`), so no other instance takes it by accident.
    """

    reservation_id: pulumi.Output[str]
    placement_group_name: pulumi.Output[str] | None
    share_arn: pulumi.Output[str] | None

    def __init__(
        self, name: str, args: OnDemandReservationArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpufleet:capacity:OnDemandReservation", name, args.tags, opts)
        group = None
        self.placement_group_name = None
        if args.placement_group:
            group = aws.ec2.PlacementGroup(name, strategy="cluster", tags=self.tags(name), opts=self.child())
            self.placement_group_name = group.name
        reservation = aws.ec2.CapacityReservation(
            name,
            instance_type=args.instance_type,
            instance_count=args.count,
            instance_platform=PLATFORM,
            instance_match_criteria="targeted",
            availability_zone=args.zone,
            end_date_type="unlimited",
            placement_group_arn=group.arn if group else None,
            tags=self.tags(name),
            opts=self.child(),
        )
        self.reservation_id = reservation.id
        self.share_arn = (
            share(self, name, reservation.arn, args.share_with, outside=args.share_outside_organization)
            if args.share_with
            else None
        )
        self.register_outputs(
            {
                "reservationId": self.reservation_id,
                "placementGroupName": self.placement_group_name,
                **({} if self.share_arn is None else {"shareArn": self.share_arn}),
            }
        )


@dataclass(frozen=True, kw_only=True)
class CapacityBlockArgs:
    """Inputs of `CapacityBlock`: `count` nodes of one type for `duration`, in one of `zones`.

    `start` is a date (ISO 8601, UTC) or relative (`in 14 d`); a relative one is resolved once, when the
    block is bought. `max_upfront_usd` limits the payment; without it there is no limit. `protect` prevents
    Pulumi from replacing the block, which would buy another, and from removing it from the state.
    `extensions` are bought as well, one after the other, each within `max_upfront_usd`. `client` are options
    of the boto3 client that searches offerings (`endpoint_url`, `profile`...), for another account or
    endpoint than the default.
    """

    instance_type: str
    count: int
    duration: timedelta
    start: str
    zones: Sequence[str]
    extensions: Sequence[timedelta] = ()
    max_upfront_usd: str | None = None
    protect: bool = True
    client: Mapping[str, str] = field(default_factory=dict)
    tags: Tags


class CapacityBlock(Component):
    """An EC2 Capacity Block for ML. **Creating it spends real money: all of it upfront, non-refundable.**

    The component buys the earliest offering of exactly this duration, at the start or up to 36 h after it,
    and the cheapest of those. The state keeps its id, dates, zone and price. Another type, count, duration
    or start, or zones without the bought one, means another block and another payment, which `protect`
    prevents. AWS cannot cancel a block: deleting this resource only removes it from the state. `end` is that
    of the last extension.
    """

    reservation_id: pulumi.Output[str]
    zone: pulumi.Output[str]
    start: pulumi.Output[str]
    end: pulumi.Output[str]
    last_extension: CapacityBlockExtension | None
    upfront_fee: pulumi.Output[str]

    def __init__(
        self, name: str, args: CapacityBlockArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gpufleet:capacity:CapacityBlock", name, args.tags, opts)
        region = aws.get_region_output(opts=pulumi.InvokeOutputOptions(parent=self)).region
        offering = CapacityBlockOffering(
            name,
            {
                "instance_type": args.instance_type,
                "count": args.count,
                "duration_hours": int(args.duration / timedelta(hours=1)),
                "start": args.start,
                "zones": list(args.zones),
                "region": region,
                "max_upfront_usd": args.max_upfront_usd,
                "client": dict(args.client),
            },
            self.child(protect=args.protect),
        )
        block = aws.ec2.CapacityBlockReservation(
            name,
            capacity_block_offering_id=offering.offering_id,
            instance_platform=PLATFORM,
            tags=self.tags(name),
            opts=self.child(protect=args.protect, retain_on_delete=args.protect),
        )
        self.reservation_id = block.id
        self.zone = offering.zone
        self.start = offering.start_date
        self.last_extension = extend_block(
            name,
            reservation_id=block.id,
            instance_type=args.instance_type,
            count=args.count,
            duration=args.duration,
            extensions=args.extensions,
            region=region,
            max_upfront_usd=args.max_upfront_usd,
            client=args.client,
            opts=self.child(protect=args.protect),
        )
        self.end = offering.end_date if self.last_extension is None else self.last_extension.end_date
        self.upfront_fee = offering.upfront_fee
        self.register_outputs(
            {
                "reservationId": self.reservation_id,
                "zone": self.zone,
                "start": self.start,
                "end": self.end,
                "upfrontFee": self.upfront_fee,
            }
        )
