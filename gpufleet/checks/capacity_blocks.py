"""EC2 Capacity Blocks for ML: durations, sizes and start times that AWS sells; one type, one zone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from gpufleet.checks.rules import FieldFinding, Fleet, LocatedGroup, check, listed
from gpufleet.kinds import BLOCK_EXTENDED_FROM, BLOCK_EXTENDED_UNTIL
from gpufleet.spec.models import CapacityBlock

DAY = dt.timedelta(days=1)
NONE = dt.timedelta(0)
DAY_BEGINS = dt.time(11, 30, tzinfo=dt.UTC)
"""The time of day at which blocks start and end (EC2 User Guide, "Capacity Blocks for ML")."""


@check("capacity-block-duration")
def block_duration(fleet: Fleet) -> Iterator[FieldFinding]:
    """AWS sells blocks of 1 to 14 days, and of whole weeks up to 182 days (EC2 User Guide, "Capacity Blocks
    for ML")."""
    rules = fleet.catalog.capacity_block_rules
    daily, longest = rules.daily_steps_up_to_days, rules.weekly_steps_up_to_days
    for each, block in fleet.blocks():
        where = (*each.option_path, "duration")
        if block.duration is None:
            if block.id is None:
                yield FieldFinding(
                    where,
                    "a Capacity Block needs a `duration`, and none is given",
                    f"write 'duration: 7 d' (days up to {daily} d, then weeks up to {longest} d)",
                    value=f"{block.nodes} nodes",
                )
            continue
        days, rest = divmod(block.duration.delta, DAY)
        if not rest and rules.allows_days(days):
            continue
        if days >= longest:
            yield FieldFinding(
                where,
                f"'{block.duration}' is longer than the maximum of a Capacity Block ({longest} d)",
                f"write '{longest} d' or less",
            )
            continue
        below = next((n for n in range(days, 0, -1) if rules.allows_days(n)), None)
        above = next((n for n in range(days + 1, longest + 1) if rules.allows_days(n)), None)
        near = " or ".join(f"'{n} d'" for n in (below, above) if n is not None)
        yield FieldFinding(
            where,
            f"'{block.duration}' is not a duration of Capacity Blocks (days up to {daily} d, then"
            f" weeks up to {longest} d)",
            f"write {near}",
        )


@check("capacity-block-extension")
def block_extension(fleet: Fleet) -> Iterator[FieldFinding]:
    """AWS extends blocks by 1 to 14 days, and by whole weeks up to 182 days in total, from 56 days to 1 hour
    before their end (EC2 User Guide, "Extend Capacity Blocks"). The end of a block that is not bought yet
    must be near enough for an extension in the same run."""
    rules = fleet.catalog.capacity_block_rules
    for each, block in fleet.blocks():
        for index, extension in enumerate(block.extensions):
            days, rest = divmod(extension.delta, DAY)
            if rest or not rules.allows_days(days):
                yield FieldFinding(
                    (*each.option_path, "extensions", index),
                    f"'{extension}' is not an extension of Capacity Blocks (days up to"
                    f" {rules.daily_steps_up_to_days} d, then weeks up to {rules.weekly_steps_up_to_days} d)",
                    "write days up to 14 d, or whole weeks",
                )
        if not block.extensions or block.duration is None:
            continue
        total = sum((one.delta for one in block.extensions), block.duration.delta)
        if total > rules.weekly_steps_up_to_days * DAY:
            yield FieldFinding(
                (*each.option_path, "extensions"),
                f"the block and its extensions last {total // DAY} d, and AWS documents"
                f" {rules.weekly_steps_up_to_days} d in total",
                "write shorter extensions, or another block for the rest",
                "warning",
            )
        if block.start is None or fleet.bought_block(each, block) is not None:
            continue
        # The last extension is bought while the end of those before it is the block's.
        ends = block.start.after(fleet.now) + total - block.extensions[-1].delta
        if ends > BLOCK_EXTENDED_FROM:
            yield FieldFinding(
                (*each.option_path, "extensions"),
                f"the block would end in {ends // DAY} d before its last extension, and AWS extends blocks"
                f" from {BLOCK_EXTENDED_FROM.days} d before their end",
                "remove the extension now, and add it when the end is near",
            )


@check("capacity-block-ends")
def block_ends(fleet: Fleet) -> Iterator[FieldFinding]:
    """EC2 terminates the instances of a block from 30 minutes before its end. An extension must be bought at
    least 1 hour before the end (EC2 User Guide, "Extend Capacity Blocks"), and needs free capacity."""
    for each, block in fleet.blocks():
        # A relative start counts from a purchase that only the state has.
        ahead = block.start is not None and block.start.offset is None and block.start.after(fleet.now) > NONE
        bought = None if ahead else fleet.bought_block(each, block)
        if bought is None or bought.end is None:
            continue
        left = bought.end - fleet.now
        if not BLOCK_EXTENDED_UNTIL <= left <= block.remind_before.delta:
            continue
        latest = bought.end - BLOCK_EXTENDED_UNTIL
        yield FieldFinding(
            (*each.option_path, "extensions"),
            f"the Capacity Block of {each.name} ends at {bought.end:%Y-%m-%d %H:%M} UTC, and its nodes stop"
            " 45 minutes before",
            f"to extend it, append an entry such as 7 d to `extensions`, and run `up` until"
            f" {latest:%Y-%m-%d %H:%M} UTC; else remove the node group after the end",
            "warning",
            value=", ".join(str(one) for one in block.extensions) or "none",
        )


@check("capacity-block-size")
def block_size(fleet: Fleet) -> Iterator[FieldFinding]:
    """A block holds at most 64 instances, and all blocks of an account together at most 256 (EC2 User
    Guide)."""
    rules = fleet.catalog.capacity_block_rules
    total = 0
    for each, block in fleet.blocks():
        total += block.nodes
        where = (*each.option_path, "nodes")
        if block.nodes > rules.max_instances_per_block:
            yield FieldFinding(
                where,
                f"{block.nodes} instances are more than the maximum of one Capacity Block"
                f" ({rules.max_instances_per_block})",
                f"use several node groups of {rules.max_instances_per_block} or fewer",
            )
        elif total > rules.max_instances_all_blocks:
            yield FieldFinding(
                where,
                f"the Capacity Blocks up to this one hold {total} instances, but an account can"
                f" have {rules.max_instances_all_blocks}",
                "reserve fewer nodes, or use another account",
            )


@check("capacity-block-all-or-none")
def block_bounds(fleet: Fleet) -> Iterator[FieldFinding]:
    """A block is paid for all of its nodes for its whole duration: fewer nodes waste money, more nodes cannot
    start."""
    for each, block in fleet.blocks():
        for field, value in (("min", block.min), ("max", block.max)):
            if value is not None and value != block.nodes:
                more = "more than it holds" if value > block.nodes else "fewer than you pay for"
                yield FieldFinding(
                    (*each.option_path, field),
                    f"{field} {value} differs from the block's {block.nodes} nodes ({more})",
                    f"leave {field} out, or write '{field}: {block.nodes}'",
                )


@check("capacity-block-start")
def block_start(fleet: Fleet) -> Iterator[FieldFinding]:
    """AWS sells blocks up to eight weeks ahead and none that starts in the past (EC2 User Guide). A purchased
    block is in the stack's state or has an `id`, and runs until its end."""
    weeks = fleet.catalog.capacity_block_rules.book_ahead_weeks
    ahead = dt.timedelta(weeks=weeks)
    for each, block in fleet.blocks():
        where = (*each.option_path, "start")
        if block.start is None:
            if block.id is None:
                yield FieldFinding(
                    where,
                    "a Capacity Block needs a `start` in the future, and none is given",
                    "write the earliest acceptable start, such as 'start: in 2 d'",
                    value=f"{block.nodes} nodes",
                )
            continue
        if block.id is not None:
            yield FieldFinding(
                where, f"block {block.id} exists and already has a start", "remove `start`", "warning"
            )
            continue
        offset = block.start.after(fleet.now)
        if offset > ahead:
            yield FieldFinding(
                where,
                f"'{block.start.text}' is further ahead than AWS sells Capacity Blocks ({weeks} weeks)",
                f"write 'in {ahead.days} d' or sooner",
            )
        elif offset < dt.timedelta(0):
            yield from _started(fleet, each, block, fleet.now + offset)


def _started(
    fleet: Fleet, each: LocatedGroup, block: CapacityBlock, start: dt.datetime
) -> Iterator[FieldFinding]:
    """Report a block whose start has passed, unless it is bought and still runs."""
    bought = fleet.bought_block(each, block)
    end = bought.end if bought is not None else None
    if end is None:
        end = start + (block.duration.delta if block.duration is not None else dt.timedelta(0))
    over = end <= fleet.now
    if bought is not None and not over:
        return
    why = "is over" if over else "starts in the past, and the state has no such purchased block"
    first_day = dt.datetime.combine(fleet.now.date(), DAY_BEGINS)
    first_day += DAY if first_day <= fleet.now else dt.timedelta(0)
    yield FieldFinding(
        (*each.option_path, "start"),
        f"a block that starts at '{block.start}' {why}: a Capacity Block must be bought before it starts",
        f"write 'in 1 d', or '{first_day:%Y-%m-%dT%H:%M}Z', when the next day of blocks begins; or "
        + ("remove the node group from the fleet file" if over else "write the `id` of a purchased block"),
        "error" if fleet.bought is not None else "warning",
    )


@check("capacity-block-type")
def block_type(fleet: Fleet) -> Iterator[FieldFinding]:
    """A block holds one instance type. Only types with the usage class `capacity-block`
    (DescribeInstanceTypes) are sold as blocks."""
    for each, block in fleet.blocks():
        types = each.group.instance_types
        if len(types) > 1:
            yield FieldFinding(
                (*each.path, "instance_types"),
                f"a Capacity Block holds one instance type, but {each.name} lists {len(types)}",
                f"keep one, such as [{types[0]}], and move the others to separate node groups",
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
                f"the block holds {block.instance_type}, but {each.name} launches {listed(types)}",
                f"write 'instance_types: [{block.instance_type}]', or use a block of {types[0]}",
            )


@check("capacity-block-zone")
def block_zone(fleet: Fleet) -> Iterator[FieldFinding]:
    """A block is in one zone. The offering decides the zone of a new block. Nodes in another zone cannot use
    an existing block."""
    for each, block in fleet.blocks():
        if block.id is None or block.zone is not None:
            continue
        zones = each.group.zones or each.site.zones
        if len(zones) > 1:
            yield FieldFinding(
                (*each.option_path, "zone"),
                f"block {block.id} is in one zone, but {each.name} can use {listed(zones)}",
                f"write its zone, such as 'zone: {zones[0]}'",
                value=listed(zones),
            )


CHECKS = (
    block_duration,
    block_extension,
    block_ends,
    block_size,
    block_bounds,
    block_start,
    block_type,
    block_zone,
)
