"""What node groups cost: instances by how they are bought, and their root volumes."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.catalog import Catalog
from gpufleet.plan.cost.ledger import MONTH, Ledger, Rate, fixed, hours_of, joined, missing, number
from gpufleet.plan.cost.volumes import Volumes, price_volumes
from gpufleet.plan.models import CapacityKind, CapacityPlan, CostLine, CostRange, NodeGroupPlan, UnknownCost


def price_node_group(group: NodeGroupPlan, region: str, catalog: Catalog, ledger: Ledger) -> None:
    """Add the cost of a node group's instances and volumes to the ledger."""
    if group.capacity.kind == "capacity-block":
        _price_block(group, region, catalog, ledger)
    else:
        _price_scaled(group, region, catalog, ledger)
    hours = MONTH
    if group.capacity.kind == "capacity-block" and group.capacity.duration is not None:
        hours = min(MONTH, hours_of(group.capacity.duration))
    capacity = group.capacity
    # The on-demand part of a spot group is a second group, with a maximum of its own.
    most = 2 * capacity.max if capacity.on_demand_fallback else capacity.max
    volumes = Volumes(group.site, group.name, group.volume, capacity.min, capacity.desired, most, group.tags)
    price_volumes(volumes, region, catalog, ledger, hours)


def instance_rate(catalog: Catalog, instance: str, region: str, kind: CapacityKind) -> Rate | None:
    """USD per instance-hour for one way of buying, or None when unknown.

    An On-Demand Capacity Reservation costs the on-demand rate whether it is used or not. Spot is
    expected at the region's median over its zones.
    """
    on_demand = Rate.of(catalog.on_demand(instance, region))
    if kind in ("on-demand", "odcr"):
        return on_demand
    if kind == "capacity-block":
        return Rate.of(catalog.capacity_block(instance, region))
    spot = catalog.spot(instance, region)
    if spot is None:
        return None
    date = spot.date.isoformat() if spot.date is not None else None
    return Rate(spot.low, spot.median, spot.high, spot.source, date, spot.note)


def capped(rate: Rate | None, most: Decimal | None) -> Rate | None:
    """The rate where no node is bought above `most` USD an hour; as it is where that is None."""
    if rate is None or most is None:
        return rate
    low, expected, high = (min(each, most) for each in (rate.low, rate.expected, rate.high))
    return Rate(low, expected, high, rate.source, rate.date, rate.note)


def _price_scaled(group: NodeGroupPlan, region: str, catalog: Catalog, ledger: Ledger) -> None:
    """On-demand, spot and ODCR nodes: so many nodes times the month's hours times the rate.

    Of several types, `expected` is at the first one's rate (the one asked for first), `low` and
    `high` at the cheapest and the dearest. A type without a price is unknown and not in the line.
    """
    capacity = group.capacity
    rates: list[tuple[str, Rate]] = []
    fallback: list[Rate] = []
    for instance in group.instance_types:
        rate = capped(instance_rate(catalog, instance, region, capacity.kind), capacity.spot_max_price)
        second = (
            instance_rate(catalog, instance, region, "on-demand") if capacity.on_demand_fallback else None
        )
        if rate is not None and (second is not None or not capacity.on_demand_fallback):
            rates.append((instance, rate))
            fallback += [second] if second is not None else []
            continue
        ledger.unknown.append(
            UnknownCost(
                group.site,
                group.name,
                f"{capacity.max} x {instance}, {capacity.kind}",
                _why_unknown(catalog, instance, region, capacity),
            )
        )
    if not rates:
        return
    first_name, first = rates[0]
    low = min(rate.low for _, rate in rates)
    high = max(rate.high for _, rate in rates) + max((rate.high for rate in fallback), default=Decimal(0))
    notes = [rate.note for _, rate in rates]
    if capacity.kind == "odcr":
        notes.insert(0, "a reservation costs the on-demand rate whether it is used or not")
    if capacity.kind == "spot":
        dearest = max(rate.high for _, rate in rates)
        notes.insert(0, f"spot {number(low)} to {number(dearest)} USD/h, median {number(first.expected)}")
        if capacity.on_demand_fallback:
            notes.insert(1, "the highest counts the spot nodes and as many on-demand ones")
    dates = [rate.date for _, rate in rates] + [rate.date for rate in fallback]
    ledger.lines.append(
        CostLine(
            site=group.site,
            owner=group.name,
            kind="compute",
            what=f"{capacity.desired} x {first_name}, {capacity.kind}",
            monthly=CostRange(
                low=capacity.min * MONTH * low,
                expected=capacity.desired * MONTH * first.expected,
                high=capacity.max * MONTH * high,
            ),
            basis=f"{capacity.desired} x {first_name} x 730 h x {number(first.expected)} USD/h",
            source=joined(rate.source for rate in (*(rate for _, rate in rates), *fallback)),
            date=None if None in dates else min(date for date in dates if date is not None),
            tags=group.tags,
            note=joined(notes),
        )
    )


def _price_block(group: NodeGroupPlan, region: str, catalog: Catalog, ledger: Ledger) -> None:
    """A Capacity Block: all of it is paid when it is bought; its share of one month is at most 730 h.

    An existing block (by id) has been paid already: nothing upfront, its monthly share all the same.
    """
    capacity, instance = group.capacity, group.instance_type
    rate = instance_rate(catalog, instance, region, "capacity-block")
    what = f"{capacity.max} x {instance}, capacity-block"
    if rate is None or capacity.duration is None:
        reason = (
            "the block's length is not declared (`duration`)"
            if rate is not None
            else _why_unknown(catalog, instance, region, capacity)
        )
        ledger.unknown.append(UnknownCost(group.site, group.name, what, reason))
        return
    hours = hours_of(capacity.duration)
    share = min(MONTH, hours)
    bought = capacity.reservation_id is not None
    notes = [
        "paid before: the block exists already" if bought else "all of it is paid upfront when it is bought",
        f"a month's share is {number(share)} of the block's {number(hours)} h",
        rate.note,
    ]
    ledger.lines.append(
        CostLine(
            site=group.site,
            owner=group.name,
            kind="compute",
            what=what,
            monthly=fixed(capacity.max * share * rate.expected),
            basis=f"{capacity.max} x {instance} x {number(share)} h x {number(rate.expected)} USD/h",
            source=rate.source,
            date=rate.date,
            tags=group.tags,
            upfront=None if bought else Decimal(capacity.max) * hours * rate.expected,
            note=joined(notes),
        )
    )


def _why_unknown(catalog: Catalog, instance: str, region: str, capacity: CapacityPlan) -> str:
    if capacity.kind == "capacity-block":
        return missing(catalog.capacity_block(instance, region))
    if capacity.kind == "spot" and catalog.spot(instance, region) is None:
        return f"no spot price of {instance} was seen in {region}"
    reason = missing(catalog.on_demand(instance, region))
    return f"{reason} (for the on-demand fallback)" if capacity.kind == "spot" else reason
