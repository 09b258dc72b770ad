"""Capacity that is paid for whether nodes run in it or not: On-Demand Capacity Reservations and blocks."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from gpufleet.plan.cost.ledger import MONTH, number, settle
from gpufleet.plan.models import NodeGroupPlan
from gpufleet.pricing.context import Pricing, Sizes, steady
from gpufleet.pricing.inputs import UnpricedError, count, declared, held, text, whole
from gpufleet.pricing.owners import Owner
from gpufleet.pricing.templates import shared_hardware
from gpufleet.resources.resource import Resource, shown
from gpufleet.resources.stack import Stack

OFFERING = "pulumi-python:dynamic/capacity:CapacityBlockOffering"
SCHEDULE = "pulumi-python:dynamic/capacity:CapacityBlockSchedule"
"""Our own dynamic resources: what is looked up before a block is bought, and who starts its nodes."""


@dataclass(frozen=True, slots=True)
class Block:
    """What a Capacity Block holds, for how many hours. `fee` is what AWS asked for it, where known."""

    instance: str
    nodes: int
    hours: Decimal
    fee: Decimal | None


def read_block(stack: Stack, block: Resource) -> Block:
    """What a block of the stack holds: as AWS says once it is bought, before that as was asked for."""
    found = offering_of(stack, block)
    instance = text(block, "instanceType") or (text(found, "instance_type") if found else None)
    nodes = declared(block, "instanceCount")
    if nodes is None and found is not None:
        nodes = declared(found, "count")
    if instance is None or nodes is None:
        raise UnpricedError("what the block holds is not known: its offering was not looked up in this stack")
    hours: object = _hours_between(block)
    if hours is None and found is not None:
        hours = declared(found, "duration_hours")
    fee = declared(found, "upfront_fee") if found else None
    return Block(
        instance,
        whole(nodes, "the block's number of nodes", least=1),
        Decimal(whole(hours, "the block's length in hours", least=1)),
        _amount(fee) if isinstance(fee, str) else None,
    )


def offering_of(stack: Stack, block: Resource) -> Resource | None:
    """The look-up that a block's offering comes from."""
    found = stack.references(block, "capacityBlockOfferingId", types=[OFFERING])
    if found:
        return found[0]
    wanted = declared(block, "capacityBlockOfferingId")
    return next(
        (
            each
            for each in stack.of_type(OFFERING)
            if isinstance(wanted, str) and each.get("offering_id") == wanted
        ),
        None,
    )


def _hours_between(block: Resource) -> int | None:
    start, end = declared(block, "startDate"), declared(block, "endDate")
    if not isinstance(start, str) or not isinstance(end, str):
        return None
    try:
        length = dt.datetime.fromisoformat(end) - dt.datetime.fromisoformat(start)
    except (ValueError, TypeError):
        raise UnpricedError(f"the block's dates {shown(start)} and {shown(end)} cannot be read") from None
    # AWS ends a block at 11:30 UTC sharp and may say so to the second before.
    return round(length / dt.timedelta(hours=1))


def _amount(value: str) -> Decimal:
    try:
        amount = Decimal(value)
    except InvalidOperation:
        raise UnpricedError(f"the block's fee is {shown(value)}, which is no amount") from None
    if not amount.is_finite() or amount <= 0:
        raise UnpricedError(f"the block's fee is {shown(value)}, which cannot be")
    return amount


def price_block(pricing: Pricing, resource: Resource) -> None:
    """A Capacity Block: all of it is paid when it is bought, and a month's share is at most 730 hours."""
    block = read_block(pricing.stack, resource)
    share = min(MONTH, block.hours)
    what = f"{block.nodes} x {block.instance}, capacity-block"
    owner = pricing.owners.of(resource)
    if block.fee is not None:
        monthly = settle(block.fee * share / block.hours)
        basis = f"{number(share)} of {number(block.hours)} h of the fee of {number(block.fee)} USD"
        pricing.add(resource, what, "compute", steady(monthly, basis), owner, block.fee, "capacity-block")
        return
    rate = pricing.node_rate(block.instance, pricing.region(resource), "capacity-block")
    basis = f"{what} x {number(share)} h x {number(rate.expected)} USD/h"
    pricing.add(
        resource,
        what,
        "compute",
        steady(block.nodes * share * rate.expected, basis, rate),
        owner,
        upfront=block.nodes * block.hours * rate.expected,
        bought="capacity-block",
    )


def price_existing_block(
    pricing: Pricing, resource: Resource, reservation: str | None, owner: Owner, region: str
) -> Decimal:
    """A month's share of a block that was bought outside of the stack; its hours.

    Only the fleet file says how long it is.
    """
    group: NodeGroupPlan | None = pricing.groups.get((owner.site, owner.owner))
    length = group.capacity.duration if group is not None else None
    if group is None or length is None or reservation is None or group.capacity.reservation_id != reservation:
        raise UnpricedError(
            "the Capacity Block is not of this stack, and no node group of the fleet file says its length"
        )
    hours = Decimal(int(length.total_seconds())) / 3600
    share = min(MONTH, hours)
    rate = pricing.node_rate(group.instance_type, region, "capacity-block")
    amount = group.capacity.max * share * rate.expected
    what = f"{group.capacity.max} x {group.instance_type}, capacity-block"
    basis = f"{what} x {number(share)} h x {number(rate.expected)} USD/h; paid before, as it exists"
    pricing.add(resource, what, "compute", steady(amount, basis, rate), owner, bought="capacity-block")
    return hours


def price_reservation(pricing: Pricing, resource: Resource) -> None:
    """An On-Demand Capacity Reservation: the on-demand price, used or not."""
    held(resource, "instanceCount", "instanceType")
    instance = text(resource, "instanceType")
    if instance is None:
        raise UnpricedError("instanceType is not set")
    platform = text(resource, "instancePlatform")
    if platform != "Linux/UNIX":
        raise UnpricedError(f"no price of {platform} was read")
    shared_hardware(resource, "tenancy")
    nodes = count(resource, "instanceCount")
    rate = pricing.node_rate(instance, pricing.region(resource), "odcr")
    what = f"{nodes} x {instance}, odcr"
    basis = f"{what} x 730 h x {number(rate.expected)} USD/h, used or not"
    cost = steady(nodes * MONTH * rate.expected, basis, rate)
    pricing.add(resource, what, "compute", cost, pricing.owners.of(resource), bought="odcr")


def take(pricing: Pricing, reservation: Resource, instances: set[str], sizes: Sizes) -> Sizes:
    """How many of a group's nodes run in a reservation of the stack, which several groups may share.

    Nodes of another type than the reservation's never do.
    """
    if instances != {declared(reservation, "instanceType")}:
        return Sizes(0, 0, 0)
    room = pricing.reserved.get(reservation.urn)
    if room is None:
        nodes = count(reservation, "instanceCount")
        room = Sizes(nodes, nodes, nodes)
    taken = sizes.within(room)
    pricing.reserved[reservation.urn] = room.without(taken)
    return taken
