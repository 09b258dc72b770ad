"""Nodes of a Capacity Block start after the block does, and stop before it ends."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import Field

from gpufleet.policies.rules.capacity._reservations import HeldReservation, reservations, uses_block
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launch_inputs import number
from gpufleet.resources.launches import LAUNCHERS, Launch, declared, launches
from gpufleet.resources.resource import UNKNOWN, Resource
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    BLOCK_SCHEDULE,
    CAPACITY_BLOCK,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    SCHEDULE,
)


class CapacityBlockWithinDatesSettings(Settings):
    """The time between the stop of the nodes and the end of the block."""

    minutes_before_end: int = Field(
        30, ge=0, description="Minutes before the end of a block at which its nodes must be stopped"
    )


def _example(minimum: int, stop: str) -> Example:
    spec = {"capacityReservationTarget": {"capacityReservationId": "cr-0123456789abcdef0"}}
    group = {"minSize": minimum, "maxSize": 2, "launchTemplate": {"version": "$Latest"}, "name": "pretrain"}
    block = {
        "id": "cr-0123456789abcdef0",
        "instanceType": "p5.48xlarge",
        "instanceCount": 2,
        "startDate": "2031-05-01T11:30:00Z",
        "endDate": "2031-05-08T11:30:00Z",
    }
    return Example(
        (
            {"type": CAPACITY_BLOCK, "name": "block", "props": block},
            {
                "type": LAUNCH_TEMPLATE,
                "name": "template",
                "props": {"instanceType": "p5.48xlarge", "capacityReservationSpecification": spec},
            },
            {
                "type": AUTO_SCALING_GROUP,
                "name": "nodes",
                "props": group,
                "depends": {"launchTemplate": ["template"]},
            },
            _action("start", 2, "2031-05-01T11:30:00Z"),
            _action("stop", 0, stop),
        )
    )


def _action(name: str, nodes: int, moment: str) -> dict[str, Any]:
    sizes = {"minSize": 0, "maxSize": 2, "desiredCapacity": nodes}
    props = {"autoscalingGroupName": "pretrain", "scheduledActionName": name, "startTime": moment, **sizes}
    return {"type": SCHEDULE, "name": name, "props": props, "depends": {"autoscalingGroupName": ["nodes"]}}


@stack_rule(
    "capacity-block-within-dates",
    group="capacity",
    title="Nodes of a Capacity Block run within the block's dates",
    why="Before a block starts its nodes cannot launch, and the group keeps failing. EC2 terminates nodes "
    "30 minutes before the block ends, with their jobs, unless they were drained before.",
    fix="Start the group at 0 nodes, scale it up at the block's start and to 0 at least 30 minutes before "
    "its end.",
    severity="high",
    types=(*LAUNCHERS, CAPACITY_BLOCK, SCHEDULE, BLOCK_SCHEDULE),
    settings=CapacityBlockWithinDatesSettings,
    fleet_field="cloud",
    passes=_example(0, "2031-05-08T10:45:00Z"),
    fails=_example(1, "2031-05-08T11:15:00Z"),
)
def capacity_block_within_dates(
    stack: Stack, context: RuleContext[CapacityBlockWithinDatesSettings]
) -> Iterator[Violation]:
    """Check sizes and scheduled actions of every launch into a block."""
    found = reservations(stack)
    room = dt.timedelta(minutes=context.settings.minutes_before_end)
    for launch in launches(stack):
        use = found.use(launch)
        if not uses_block(launch, use):
            continue
        blocks = [held for held in use.held if held.block]
        window = _window(blocks)
        yield from _standing(launch, window, context.shared.now)
        yield from _scheduled(stack, launch, window, room)
        yield from _own_schedule(stack, launch, blocks)


Window = tuple[dt.datetime, dt.datetime] | None


def _window(blocks: Sequence[HeldReservation]) -> Window:
    if len(blocks) != 1:
        return None
    start, end = (_moment(blocks[0].resource.get(prop)) for prop in ("startDate", "endDate"))
    return (start, end) if start is not None and end is not None else None


def _moment(value: object) -> dt.datetime | None:
    if not isinstance(value, str):
        return None
    try:
        moment = dt.datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def _standing(launch: Launch, window: Window, now: dt.datetime) -> Iterator[Violation]:
    """Report nodes that start as soon as the group exists."""
    runs = window is not None and window[0] <= now < window[1]
    if runs:
        return
    resource = launch.resource
    own = {
        NODE_GROUP: ("scalingConfig.minSize", "scalingConfig.desiredSize"),
        AUTO_SCALING_GROUP: ("minSize", "desiredCapacity"),
    }.get(resource.type)
    # ignoreChanges has no effect when the group is created.
    sizes = [(path, resource.get(path)) for path in own] if own else [("", 1)]
    for path, value in sizes:
        if value is None or number(value) == 0:
            continue
        when = (
            f"runs from {window[0]:%Y-%m-%d %H:%M} to {window[1]:%Y-%m-%d %H:%M} UTC"
            if window
            else ("has no known dates yet")
        )
        yield Violation(
            f"{path or 'an instance'}{f' is {resource.show(path)}' if path else ''}, and the Capacity Block "
            f"{when}: nodes cannot launch outside these dates",
            f"write {path}: 0 and let a scheduled action start the nodes"
            if path
            else "launch it from a group that starts at 0",
            urn=resource.urn,
            prop=path,
            unknown=window is None,
        )


def _scheduled(stack: Stack, launch: Launch, window: Window, room: dt.timedelta) -> Iterator[Violation]:
    actions = [declared(each) for each in _actions(stack, launch.resource)]
    for action in actions:
        wanted = [action.get(prop) for prop in ("minSize", "desiredCapacity")]
        if action.get("recurrence") is not None:
            yield _wrong(action, "recurrence", "recurs outside the Capacity Block's dates")
        if all(value is None or number(value) in (0, -1) for value in wanted):
            continue
        start = _moment(action.get("startTime"))
        if window is None or start is None:
            yield _wrong(
                action, "startTime", "cannot be compared with the Capacity Block's dates yet", unknown=True
            )
        elif not window[0] <= start < window[1] - room:
            yield _wrong(action, "startTime", f"is outside the Capacity Block ({_text(window)})")
        elif not any(_stops(other, start, window[1] - room) for other in actions):
            yield _wrong(
                action,
                "startTime",
                f"starts nodes that nothing stops {room // dt.timedelta(minutes=1)} minutes before the "
                f"Capacity Block ends ({_text(window)})",
            )


def _actions(stack: Stack, group: Resource) -> Iterator[Resource]:
    yield from (
        each
        for each in stack.of_type(SCHEDULE)
        if stack.refers(each, "autoscalingGroupName", group, "name")
        or (group.type == NODE_GROUP and group in stack.references(each, "autoscalingGroupName"))
    )


def _stops(action: Resource, after: dt.datetime, latest: dt.datetime) -> bool:
    moment = _moment(action.get("startTime"))
    zero = number(action.get("desiredCapacity")) == 0 and number(action.get("minSize", 0)) in (0, -1)
    return zero and moment is not None and after < moment <= latest


def _text(window: tuple[dt.datetime, dt.datetime]) -> str:
    return f"{window[0]:%Y-%m-%d %H:%M} to {window[1]:%Y-%m-%d %H:%M} UTC"


def _wrong(action: Resource, prop: str, why: str, unknown: bool = False) -> Violation:
    return Violation(
        f"{prop} is {action.show(prop)}, which {why}",
        "start at the block's start and scale to 0 at least 30 minutes before its end, as "
        "components/capacity_block_schedule.py does",
        urn=action.urn,
        prop=prop,
        unknown=unknown,
    )


def _own_schedule(stack: Stack, launch: Launch, blocks: Sequence[HeldReservation]) -> Iterator[Violation]:
    """Check that the fleet's schedule uses the same block: it reads the dates from the block."""
    for original in stack.of_type(BLOCK_SCHEDULE):
        if not stack.refers(original, "group_name", launch.resource, "name"):
            continue
        schedule = declared(original)
        named = {
            held.resource.urn for held in blocks if stack.refers(original, "reservation_id", held.resource)
        }
        foreign = not blocks and isinstance(schedule.get("reservation_id"), str)
        if not named and not foreign:
            yield Violation(
                f"reservation_id is {schedule.show('reservation_id')}, and {launch.resource.name} launches "
                "into another Capacity Block",
                "use the reservation_id of the launch template",
                urn=original.urn,
                prop="reservation_id",
            )
        for held in blocks:
            nodes, count = number(schedule.get("nodes")), held.count
            if nodes is not UNKNOWN and count is not UNKNOWN and nodes > count:
                yield Violation(
                    f"nodes is {nodes}, and the Capacity Block holds {count}",
                    f"write {count} or fewer",
                    urn=original.urn,
                    prop="nodes",
                )
