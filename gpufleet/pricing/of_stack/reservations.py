"""Capacity that is paid for whether it is used or not: On-Demand Capacity Reservations and blocks."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal, InvalidOperation

from msgspec import Struct

from gpufleet.plan.capacity_models import ExistingBlockPlan
from gpufleet.pricing import capacity
from gpufleet.pricing.book import Owner
from gpufleet.pricing.cost import Sizes
from gpufleet.pricing.of_stack.context import Pricing
from gpufleet.pricing.of_stack.inputs import count, declared, held, text, whole
from gpufleet.pricing.of_stack.templates import shared_hardware
from gpufleet.pricing.rates import MONTH, Prices, UnpricedError, hours_of
from gpufleet.resources.resource import Resource, shown
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import BLOCK_EXTENSION, BLOCK_OFFERING


class BlockPurchase(Struct, frozen=True):
    """Type, nodes and hours of a Capacity Block. `fee` is AWS's fee, if known."""

    instance: str
    nodes: int
    hours: Decimal
    fee: Decimal | None


def read_block(stack: Stack, block: Resource) -> BlockPurchase:
    """Return the purchase of a block: AWS's values if it is bought, else the requested ones."""
    found = offering_of(stack, block)
    instance = text(block, "instanceType") or (text(found, "instance_type") if found else None)
    nodes = declared(block, "instanceCount")
    if nodes is None and found is not None:
        nodes = declared(found, "count")
    if instance is None or nodes is None:
        raise UnpricedError("the content of the block is not known: this stack does not look up its offering")
    hours: object = _hours_between(block)
    # The dates of an extended block are those of the block and its extensions.
    if found is not None and (hours is None or extended_hours(stack, block)):
        hours = declared(found, "duration_hours")
    fee = declared(found, "upfront_fee") if found else None
    return BlockPurchase(
        instance,
        whole(nodes, "the block's number of nodes", least=1),
        Decimal(whole(hours, "the block's duration in hours", least=1)),
        _amount(fee) if isinstance(fee, str) else None,
    )


def offering_of(stack: Stack, block: Resource) -> Resource | None:
    """Return the resource that looked up a block's offering."""
    found = stack.references(block, "capacityBlockOfferingId", types=[BLOCK_OFFERING])
    if found:
        return found[0]
    wanted = declared(block, "capacityBlockOfferingId")
    return next(
        (
            each
            for each in stack.of_type(BLOCK_OFFERING)
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
    # AWS ends a block at 11:30 UTC and may report the second before.
    return round(length / dt.timedelta(hours=1))


def _amount(value: str) -> Decimal:
    try:
        amount = Decimal(value)
    except InvalidOperation:
        raise UnpricedError(f"the block's fee is {shown(value)}, which is not an amount") from None
    if not amount.is_finite() or amount <= 0:
        raise UnpricedError(f"the block's fee is {shown(value)}, which is invalid")
    return amount


def price_block(pricing: Pricing, resource: Resource) -> None:
    """Price a Capacity Block that the stack buys."""
    block, owner = read_block(pricing.stack, resource), pricing.owners.of(resource)
    prices = pricing.prices(resource)
    pricing.price(
        resource,
        lambda: capacity.price_block(prices, block.instance, block.nodes, block.hours, fee=block.fee),
        owner,
    )


def price_extension(pricing: Pricing, resource: Resource) -> None:
    """Price an extension of a Capacity Block: AWS's fee if it is bought, else the catalog's price."""
    instance, fee = text(resource, "instance_type"), declared(resource, "upfront_fee")
    if instance is None:
        raise UnpricedError("instance_type is not set")
    nodes = whole(declared(resource, "count"), "the block's number of nodes", least=1)
    hours = Decimal(whole(declared(resource, "hours"), "the extension in hours", least=1))
    before = Decimal(whole(declared(resource, "hours_before"), "the hours before it", least=0))
    prices = pricing.prices(resource)
    pricing.price(
        resource,
        lambda: capacity.price_block(
            prices,
            instance,
            nodes,
            hours,
            fee=_amount(fee) if isinstance(fee, str) else None,
            extends=before,
        ),
        pricing.owners.of(resource),
    )


def extended_hours(stack: Stack, block: Resource) -> Decimal:
    """Return the hours by which extensions of the stack extend a block."""
    found = [each for each in stack.of_type(BLOCK_EXTENSION) if stack.refers(each, "reservation_id", block)]
    return sum(
        (Decimal(whole(declared(each, "hours"), "the extension in hours", least=1)) for each in found),
        Decimal(0),
    )


def block_hours(pricing: Pricing, block: Resource) -> Decimal:
    """Return the hours per month in which nodes of a block of the stack can run."""
    return min(MONTH, read_block(pricing.stack, block).hours + extended_hours(pricing.stack, block))


def price_existing_block(
    pricing: Pricing, resource: Resource, reservation: str | None, owner: Owner, prices: Prices
) -> Decimal:
    """Price the monthly share of a block bought outside of the stack, and return its hours.

    Only the fleet file has its duration.
    """
    group = pricing.groups.get((owner.site, owner.owner))
    if (
        group is None
        or not isinstance(block := group.capacity, ExistingBlockPlan)
        or block.reservation_id != reservation
    ):
        raise UnpricedError(
            "the Capacity Block is not in this stack, and no node group of the fleet file declares its"
            " duration"
        )
    instance, nodes = group.instance_type, block.nodes
    hours = None if block.duration is None else hours_of(block.duration)
    pricing.price(resource, lambda: capacity.price_block(prices, instance, nodes, hours, paid=True), owner)
    return (
        MONTH if hours is None or block.duration is None else hours_of(sum(block.extensions, block.duration))
    )


def price_reservation(pricing: Pricing, resource: Resource) -> None:
    """Price an On-Demand Capacity Reservation."""
    held(resource, "instanceCount", "instanceType")
    instance = text(resource, "instanceType")
    if instance is None:
        raise UnpricedError("instanceType is not set")
    platform = text(resource, "instancePlatform")
    if platform != "Linux/UNIX":
        raise UnpricedError(f"no price is known for {platform}")
    shared_hardware(resource, "tenancy")
    nodes, prices = count(resource, "instanceCount"), pricing.prices(resource)
    pricing.price(
        resource, lambda: capacity.price_reservation(prices, instance, nodes), pricing.owners.of(resource)
    )


def take(pricing: Pricing, reservation: Resource, instances: set[str], sizes: Sizes) -> Sizes:
    """Return and use up the nodes of a group that run in a reservation, which several groups can share.

    Nodes of other types do not use it.
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
