"""EC2 Capacity Blocks for ML: lengths, sizes and times that AWS sells, and one type in one zone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, LocatedGroup, check, listed
from gpufleet.spec.models import CapacityBlock

DAY = dt.timedelta(days=1)
DAY_BEGINS = dt.time(11, 30, tzinfo=dt.UTC)
"""When the days of a block begin and end (EC2 User Guide, "Capacity Blocks for ML")."""


@check("capacity-block-duration")
def block_duration(fleet: Fleet) -> Iterator[FieldFinding]:
    """Blocks come in steps of a day up to 14 days and of a week up to 182 days (EC2 User Guide,
    "Capacity Blocks for ML")."""
    rules = fleet.catalog.capacity_block_rules
    daily, longest = rules.daily_steps_up_to_days, rules.weekly_steps_up_to_days
    for each, block in fleet.blocks():
        where = (*each.option_path, "duration")
        if block.duration is None:
            if block.id is None:
                yield FieldFinding(
                    where,
                    "a Capacity Block is bought for a length of time, and none is given",
                    f"write 'duration: 7 d' (days up to {daily} d, then weeks up to {longest} d)",
                    value=f"{block.nodes} nodes",
                )
            continue
        length = block.duration.delta
        days, rest = divmod(length, DAY)
        if not rest and rules.allows_days(days):
            continue
        if length > longest * DAY:
            yield FieldFinding(
                where,
                f"'{block.duration}' is longer than a Capacity Block can be ({longest} d)",
                f"write '{longest} d' or less",
            )
            continue
        below = next((n for n in range(days, 0, -1) if rules.allows_days(n)), None)
        above = next((n for n in range(days + 1, longest + 1) if rules.allows_days(n)), None)
        near = " or ".join(f"'{n} d'" for n in (below, above) if n is not None)
        yield FieldFinding(
            where,
            f"'{block.duration}' is not a length that Capacity Blocks are sold in (days up to {daily} d, then"
            f" weeks up to {longest} d)",
            f"write {near}",
        )


@check("capacity-block-size")
def block_size(fleet: Fleet) -> Iterator[FieldFinding]:
    """One block holds at most 64 instances, and an account's blocks 256 at a time (EC2 User Guide)."""
    rules = fleet.catalog.capacity_block_rules
    total = 0
    for each, block in fleet.blocks():
        total += block.nodes
        where = (*each.option_path, "nodes")
        if block.nodes > rules.max_instances_per_block:
            yield FieldFinding(
                where,
                f"{block.nodes} instances are more than one Capacity Block holds"
                f" ({rules.max_instances_per_block})",
                f"use several node groups of {rules.max_instances_per_block} or fewer",
            )
        elif total > rules.max_instances_all_blocks:
            yield FieldFinding(
                where,
                f"with this one, the Capacity Blocks of the fleet hold {total} instances, and an account may"
                f" have {rules.max_instances_all_blocks}",
                "reserve fewer nodes, or use another account",
            )


@check("capacity-block-all-or-none")
def block_bounds(fleet: Fleet) -> Iterator[FieldFinding]:
    """A block is paid for all of its nodes from its first to its last hour: fewer waste money, and more
    are not there."""
    for each, block in fleet.blocks():
        for field, value in (("min", block.min), ("max", block.max)):
            if value is not None and value != block.nodes:
                more = "more than it holds" if value > block.nodes else "fewer than are paid for"
                yield FieldFinding(
                    (*each.option_path, field),
                    f"{field} {value} is not the block's {block.nodes} nodes ({more})",
                    f"leave {field} out, or write '{field}: {block.nodes}'",
                )


@check("capacity-block-start")
def block_start(fleet: Fleet) -> Iterator[FieldFinding]:
    """Blocks are sold up to eight weeks ahead (EC2 User Guide), and none that starts in the past. A block
    that was bought before its start is in the stack's state, or has an `id`, and runs until its end."""
    weeks = fleet.catalog.capacity_block_rules.book_ahead_weeks
    ahead = dt.timedelta(weeks=weeks)
    for each, block in fleet.blocks():
        where = (*each.option_path, "start")
        if block.start is None:
            if block.id is None:
                yield FieldFinding(
                    where,
                    "a Capacity Block is bought for a time to come, and no start is given",
                    "write the earliest start that will do, such as 'start: in 2 d'",
                    value=f"{block.nodes} nodes",
                )
            continue
        if block.id is not None:
            yield FieldFinding(
                where, f"block {block.id} exists and has a start of its own", "leave `start` out", "warning"
            )
            continue
        offset = block.start.offset
        if offset is None and block.start.at is not None:
            at = block.start.at if block.start.at.tzinfo else block.start.at.replace(tzinfo=dt.UTC)
            offset = at - fleet.now
        if offset is None:
            continue
        if offset > ahead:
            yield FieldFinding(
                where,
                f"'{block.start.text}' is further ahead than Capacity Blocks are sold ({weeks} weeks)",
                f"write 'in {ahead.days} d' or sooner",
            )
        elif offset < dt.timedelta(0):
            yield from _started(fleet, each, block, fleet.now + offset)


def _started(
    fleet: Fleet, each: LocatedGroup, block: CapacityBlock, start: dt.datetime
) -> Iterator[FieldFinding]:
    """What is wrong with a block whose start is past: nothing with one that is bought and still runs."""
    bought = fleet.bought_block(each, block)
    end = bought.end if bought is not None else None
    if end is None:
        end = start + (block.duration.delta if block.duration is not None else dt.timedelta(0))
    over = end <= fleet.now
    if bought is not None and not over:
        return
    why = "is over" if over else "starts in the past, and no state that was read holds it as bought"
    first_day = dt.datetime.combine(fleet.now.date(), DAY_BEGINS)
    first_day += DAY if first_day <= fleet.now else dt.timedelta(0)
    yield FieldFinding(
        (*each.option_path, "start"),
        f"a block that starts at '{block.start}' {why}: Capacity Blocks are sold before they start",
        f"write 'in 1 d', or '{first_day:%Y-%m-%dT%H:%M}Z', when the next day of blocks begins; or "
        + (
            "take the node group out of the fleet file"
            if over
            else "write the `id` of a block that is bought"
        ),
        "error" if fleet.bought is not None else "warning",
    )


@check("capacity-block-type")
def block_type(fleet: Fleet) -> Iterator[FieldFinding]:
    """A block holds one instance type, and only some types are sold so (the usage class
    `capacity-block` of DescribeInstanceTypes)."""
    for each, block in fleet.blocks():
        types = each.group.instance_types
        if len(types) > 1:
            yield FieldFinding(
                (*each.path, "instance_types"),
                f"a Capacity Block holds one instance type, and {each.name} names {len(types)}",
                f"keep one, such as [{types[0]}], and put the others into node groups of their own",
            )
        for item in fleet.types(each.group):
            if "capacity-block" not in item.usage_classes:
                sold = [
                    other.name for other in fleet.catalog.find_instances(usage="capacity-block", min_gpus=1)
                ]
                yield FieldFinding(
                    (*each.path, "instance_types", types.index(item.name)),
                    f"{item.name} is not sold as a Capacity Block",
                    f"use one of {listed(sold, 12)}, or buy it on demand",
                )
        if block.instance_type is not None and block.instance_type not in types:
            yield FieldFinding(
                (*each.option_path, "instance_type"),
                f"the block holds {block.instance_type}, and {each.name} launches {listed(types)}",
                f"write 'instance_types: [{block.instance_type}]', or name a block of {types[0]}",
            )


@check("capacity-block-zone")
def block_zone(fleet: Fleet) -> Iterator[FieldFinding]:
    """A block lies in one zone. A block to be bought takes the zone of the offering; an existing one is
    where it is, and nodes launched in another zone never get to it."""
    for each, block in fleet.blocks():
        if block.id is None or block.zone is not None:
            continue
        zones = each.group.zones or each.site.zones
        if len(zones) > 1:
            yield FieldFinding(
                (*each.option_path, "zone"),
                f"block {block.id} lies in one zone, and {each.name} may use {listed(zones)}",
                f"say where it lies, such as 'zone: {zones[0]}'",
                value=listed(zones),
            )


CHECKS = (block_duration, block_size, block_bounds, block_start, block_type, block_zone)
