"""How the nodes of a group are bought: the reservation or Capacity Block that they launch into."""

from __future__ import annotations

from collections.abc import Sequence
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
from gpufleet.components.node_group import (
    BlockNodes,
    NodeCapacity,
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
from gpufleet.plan.models import NodeGroupPlan
from gpufleet.stacks.settings import StackSettings
from gpufleet.stacks.site_parts import SiteParts


@dataclass(frozen=True)
class Purchase:
    """How a group's nodes are bought. Reserved ones have their own subnets and exports."""

    capacity: NodeCapacity
    placement_group: bool | pulumi.Input[str] = False
    subnet_ids: pulumi.Input[Sequence[pulumi.Input[str]]] | None = None
    reservation: dict[str, Any] | None = None
    extended_to: pulumi.Output[str] | None = None


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


def _refuse_assumed_roles(name: str, settings: StackSettings) -> None:
    """Raise for assumed roles: boto3 searches and schedules blocks, and would use another account."""
    if settings.aws_provider.get("assume_roles"):
        raise InputError(
            f"node group {name}: a Capacity Block cannot be used with aws:assumeRoles",
            remedy="set the role in a profile of the AWS configuration (role_arn, source_profile), run "
            "`pulumi config set aws:profile <profile>` and `pulumi config rm aws:assumeRoles`",
        )
