"""How many nodes a group has, how they are bought, in which zones, and next to each other or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from gpufleet.catalog.models import InstanceType
from gpufleet.errors import InputError
from gpufleet.plan.capacity_models import (
    CapacityBlockPlan,
    CapacityPlan,
    ExistingBlockPlan,
    ExistingReservationPlan,
    OnDemandPlan,
    ReservationGroupPlan,
    ReservationPlan,
    SpotPlan,
)
from gpufleet.spec.models import CapacityBlock, CloudSite, NodeGroup, OnDemand, OnDemandReservation, Spot


def group_zones(group: NodeGroup, site: CloudSite) -> tuple[str, ...]:
    """The zones a group may run in: its reservation's, else those it names, else all of its site.

    A Capacity Block that is still to be bought has every zone as a candidate; the offering decides. The
    reservations of a resource group may be in several zones.
    """
    option = group.capacity.option
    if isinstance(option, CapacityBlock | OnDemandReservation) and option.zone is not None:
        return (option.zone,)
    return group.zones or site.zones


def plan_capacity(group: NodeGroup, zones: tuple[str, ...], drawn: int | None = None) -> CapacityPlan:
    """The capacity of a group as the stack builds it, in `zones` (see `group_zones`).

    `drawn` is what an order is expected to draw from it: the order, not the group, has a size.

    Raises InputError for a Capacity Block that is to be bought, without a start or a duration;
    `gpufleet.checks` says so with a line first.
    """
    match group.capacity.option:
        case OnDemand() as option:
            return OnDemandPlan(option.min, option.max, _desired(option, drawn))
        case Spot() as option:
            price = option.max_price
            return SpotPlan(
                option.min,
                option.max,
                _desired(option, drawn),
                on_demand_fallback=option.falls_back,
                spot_max_price=price.amount if price is not None else None,
            )
        case OnDemandReservation() as option:
            if option.id is not None:
                return ExistingReservationPlan(option.nodes, option.id, zones[0], option.placement_group)
            if option.group is not None:
                return ReservationGroupPlan(option.nodes, option.group, zones, option.placement_group)
            return ReservationPlan(
                option.nodes,
                zones[0],
                option.shared_nodes,
                option.share_with,
                option.share_outside_organization,
            )
        case CapacityBlock() as option:
            return _plan_block(group.name, option, zones)
        case other:
            assert_never(other)


def _plan_block(name: str, block: CapacityBlock, zones: tuple[str, ...]) -> CapacityPlan:
    start = block.start.text if block.start is not None else None
    duration = block.duration.delta if block.duration is not None else None
    extensions = tuple(each.delta for each in block.extensions)
    if block.id is not None:
        return ExistingBlockPlan(block.nodes, block.id, zones[0], start, duration, extensions)
    if start is None or duration is None:
        raise InputError(
            f"node group {name}: a Capacity Block is bought for a time to come and a length of time",
            remedy="write its `start` and its `duration`, or the `id` of a block that is bought",
        )
    return CapacityBlockPlan(block.nodes, zones, start, duration, extensions)


def _desired(scaled: OnDemand | Spot, drawn: int | None) -> int:
    if drawn is not None:
        return drawn
    return scaled.min if scaled.desired is None else scaled.desired


def wants_placement_group(
    group: NodeGroup, types: Sequence[InstanceType], capacity: CapacityPlan, zones: Sequence[str]
) -> bool:
    """Whether the stack creates a cluster placement group for the group.

    Never with a Capacity Block: AWS places its instances next to each other by itself, and a
    request for both is refused. Never forced onto a reservation that exists already: capacity
    reserved outside of a placement group cannot be used from inside one (eksctl#7949,
    terraform-aws-eks#3730), and one reserved inside is used through its own group. A reservation
    made by the stack is made inside the group.
    """
    if not isinstance(capacity, OnDemandPlan | SpotPlan | ReservationPlan):
        return False
    if group.placement == "none" or not all("cluster" in each.placement_strategies for each in types):
        return False
    return group.placement == "cluster" or (group.network == "efa" and len(zones) == 1)
