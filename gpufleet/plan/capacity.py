"""How many nodes a group has, how they are bought, in which zones, and next to each other or not."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.catalog.models import InstanceType
from gpufleet.plan.models import CapacityKind, CapacityPlan
from gpufleet.spec.models import CloudSite, NodeGroup


def capacity_kind(group: NodeGroup) -> CapacityKind:
    """How the nodes of a group are bought."""
    if group.capacity.on_demand is not None:
        return "on-demand"
    if group.capacity.spot is not None:
        return "spot"
    reserved = group.capacity.reserved
    return "odcr" if reserved is not None and reserved.odcr is not None else "capacity-block"


def group_zones(group: NodeGroup, site: CloudSite) -> tuple[str, ...]:
    """The zones a group may run in: its reservation's, else those it names, else all of its site.

    A Capacity Block that is still to be bought has every zone as a candidate; the offering decides.
    """
    reserved = group.capacity.reserved
    if reserved is not None:
        held = reserved.capacity_block or reserved.odcr
        if held is not None and held.zone is not None:
            return (held.zone,)
    return group.zones or site.zones


def node_bounds(group: NodeGroup) -> tuple[int, int, int]:
    """Minimum, desired and maximum nodes. A reservation has all of its nodes or none."""
    scaled = group.capacity.on_demand or group.capacity.spot
    if scaled is not None:
        desired = scaled.min if scaled.desired is None else scaled.desired
        return scaled.min, desired, scaled.max
    reserved = group.capacity.reserved
    held = (reserved.capacity_block or reserved.odcr) if reserved is not None else None
    nodes = held.nodes if held is not None else 0
    return nodes, nodes, nodes


def plan_capacity(group: NodeGroup, site: CloudSite) -> CapacityPlan:
    """The capacity of a group as the stack builds it."""
    low, desired, high = node_bounds(group)
    kind = capacity_kind(group)
    zones = group_zones(group, site)
    reserved = group.capacity.reserved
    block = reserved.capacity_block if reserved is not None else None
    odcr = reserved.odcr if reserved is not None else None
    only_zone = zones[0] if reserved is not None and len(zones) == 1 else None
    spot = group.capacity.spot
    return CapacityPlan(
        kind=kind,
        min=low,
        max=high,
        desired=desired,
        reservation_id=(block.id if block is not None else odcr.id if odcr is not None else None),
        reservation_zone=only_zone,
        reservation_placement_group=odcr.placement_group if odcr is not None else None,
        start=block.start.text if block is not None and block.start is not None else None,
        duration=block.duration.delta if block is not None and block.duration is not None else None,
        on_demand_fallback=spot is not None and "on-demand" in spot.on_shortage,
        spot_max_price=spot.max_price.amount if spot is not None and spot.max_price is not None else None,
    )


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
    if capacity.kind == "capacity-block" or capacity.reservation_id is not None:
        return False
    if group.placement == "none" or not all("cluster" in each.placement_strategies for each in types):
        return False
    return group.placement == "cluster" or (group.network == "efa" and len(zones) == 1)
