"""When a Capacity Block runs, and which nodes in it a change removes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gpufleet.policies.rules.capacity._reservations import HeldReservation, reservations, uses_block
from gpufleet.policies.rules.change_safety._nodes import DisturbedNodes, disturbed
from gpufleet.policy.change import ChangeStep, StackChange
from gpufleet.policy.context import PolicyContext
from gpufleet.resources.launch_inputs import Number, number
from gpufleet.resources.launches import Launch, declared, launches, tags_of
from gpufleet.resources.resource import UNKNOWN, Resource, is_unknown
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import (
    AUTO_SCALING_GROUP,
    BLOCK_EXTENSION,
    BLOCK_OFFERING,
    BLOCK_SCHEDULE,
    NODE_GROUP,
    SCHEDULE,
)
from gpufleet.spec.models import CapacityBlock, FleetSpec

STARTS_WITHIN = dt.timedelta(hours=36)
"""How long after the requested start a block may start (components/capacity_block_offering.py)."""

ENDS_WITHIN = dt.timedelta(hours=1)
"""Nodes may be stopped this long before the end of a block, 30 minutes before EC2 terminates them."""

_SIZES = {
    NODE_GROUP: ("scalingConfig.desiredSize", "scalingConfig.maxSize"),
    AUTO_SCALING_GROUP: ("desiredCapacity", "maxSize"),
}


class BlockTime(Struct, frozen=True):
    """When a Capacity Block runs, as far as it is known: `unclear` says what is missing.

    With `requested`, the block was requested for a time, and runs at some time between start and end.
    """

    start: dt.datetime | None = None
    end: dt.datetime | None = None
    unclear: str = ""
    requested: bool = False

    def runs(self, now: dt.datetime) -> bool | None:
        """Return whether the block runs: from its start until, but not at, its end. None if unknown."""
        if self.end is not None and self.end <= now:
            return False
        if self.start is not None and self.start > now:
            return False
        return None if self.start is None or self.end is None else True

    @property
    def text(self) -> str:
        """The known dates, for a message."""
        if self.start is None or self.end is None:
            return self.unclear
        verb = "may run, as requested," if self.requested else "runs"
        start, end = (each.astimezone(dt.UTC) for each in (self.start, self.end))
        return f"{verb} from {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"


def block_launches(stack: Stack) -> Iterator[Launch]:
    """Yield the launches into Capacity Blocks."""
    found = reservations(stack)
    yield from (launch for launch in found.launches if uses_block(launch, found.use(launch)))


def block_times(launch: Launch, change: StackChange, shared: PolicyContext) -> list[BlockTime]:
    """Return when the blocks of a launch of the stack before the change run.

    A state has the dates of the purchase. A verdict creates the stack in an emulated account, whose dates are
    not those of the real block: there the requested start counts, and every time at which a block for it may
    run.
    """
    if shared.is_verdict:
        return [_requested(launch, change)]
    stack = change.before
    blocks = [held for held in reservations(stack).use(launch).held if held.block]
    times = [_bought(stack, held) for held in blocks]
    scheduled = [
        _between(each.get("start_date"), each.get("end_date"))
        for each in stack.of_type(BLOCK_SCHEDULE)
        if stack.refers(each, "group_name", launch.resource, "name")
    ]
    known = [time for time in times if not time.unclear]
    return (known if len(known) == len(times) and known else []) or scheduled or times or [_foreign(launch)]


def disturbed_in_block(change: StackChange, launch: Launch, end: dt.datetime | None) -> DisturbedNodes | None:
    """Return how the change removes nodes of a launch into a block that runs until `end`; None if it keeps
    them.

    Besides what removes nodes of any group: a lower size, an instance refresh that the change triggers, a
    maximum lifetime of instances, subnets that leave the group, and an action that stops nodes.
    """
    urn = launch.resource.urn
    known = next((each for each in disturbed(change) if each.launch.resource.urn == urn), None)
    if known is not None:
        return known
    step = next((each for each in change.steps if each.before is not None and each.before.urn == urn), None)
    now = step.urn if step is not None else urn
    how = ""
    if step is not None and step.operation == "update":
        after = next((each for each in launches(change.after) if each.resource.urn == now), None)
        how = _resized(launch, after) or _recycled(step)
    how = how or _stopped(change, launch, now, end)
    return DisturbedNodes(launch, now, how, UNKNOWN) if how else None


def _bought(stack: Stack, held: HeldReservation) -> BlockTime:
    time = _between(held.resource.get("startDate"), held.resource.get("endDate"))
    if time.unclear:
        offerings = stack.references(held.resource, "capacityBlockOfferingId", types=(BLOCK_OFFERING,))
        found = [_between(each.get("start_date"), each.get("end_date")) for each in offerings]
        time = next((each for each in found if not each.unclear), time)
    extensions = stack.referrers(held.resource, "reservation_id", BLOCK_EXTENSION)
    ends = [end for each in extensions if (end := _moment(each.get("end_date"))) is not None]
    if time.unclear or time.end is None or not ends:
        return time
    return replace(time, end=max(time.end, *ends))


def _requested(launch: Launch, change: StackChange) -> BlockTime:
    block = _declared_block(launch, change.spec_before)
    if block is not None and block.start is not None and block.duration is not None:
        extended = sum((each.delta for each in block.extensions), block.duration.delta)
        return _from_request(block.start.text, extended)
    for held in reservations(change.before).use(launch).held:
        offerings = change.before.references(
            held.resource, "capacityBlockOfferingId", types=(BLOCK_OFFERING,)
        )
        for offering in map(declared, offerings):
            start, hours = offering.get("start"), number(offering.get("duration_hours"))
            if isinstance(start, str) and hours is not UNKNOWN:
                return _from_request(start, dt.timedelta(hours=hours))
    return _foreign(launch)


def _from_request(start: str, duration: dt.timedelta) -> BlockTime:
    earliest = _moment(start)
    if earliest is None:
        return BlockTime(unclear=f"its start, {start!r}, counts from a purchase that only the state has")
    return BlockTime(earliest, earliest + STARTS_WITHIN + duration, requested=True)


def _declared_block(launch: Launch, spec: FleetSpec | None) -> CapacityBlock | None:
    tags = tags_of(launch.resource)
    for site in spec.cloud if spec is not None else ():
        for group in site.node_groups:
            named = (tags.get("gpufleet:site"), tags.get("gpufleet:node-group"))
            option = group.capacity.option
            if (site.site, group.name) == named and isinstance(option, CapacityBlock):
                return option
    return None


def _foreign(launch: Launch) -> BlockTime:
    return BlockTime(unclear=f"the dates of the block of {launch.resource.name} are not in the state")


def _between(start: object, end: object) -> BlockTime:
    first, last = _moment(start), _moment(end)
    missing = [name for name, each in (("start", first), ("end", last)) if each is None]
    unclear = f"the {' and the '.join(missing)} of the block {'is' if len(missing) == 1 else 'are'} not known"
    return BlockTime(first, last, unclear if missing else "")


def _moment(value: object) -> dt.datetime | None:
    if not isinstance(value, str):
        return None
    try:
        moment = dt.datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
    except ValueError:
        return None
    # AWS's dates are in UTC; one without a zone is read as such.
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def _resized(before: Launch, after: Launch | None) -> str:
    """Return how an update lowers the size of a group; empty if it does not."""
    for path in _SIZES.get(before.resource.type, ()):
        if after is None or after.resource.ignores(path):
            continue
        old, new = before.resource.get(path), after.resource.get(path)
        if old != new and old is not None and _fewer(new, number(old)):
            return f"lowers {path} to {after.resource.show(path)}"
    return ""


def _recycled(step: ChangeStep) -> str:
    """Return how an update of an Auto Scaling group makes it replace instances; empty if it does not."""
    if step.before is None or step.after is None or step.after.type != AUTO_SCALING_GROUP:
        return ""
    group = declared(step.after)
    changed = {key.split(".")[0].split("[")[0] for key in step.diff}
    triggers = [str(value) for _, value in group.items("instanceRefresh.triggers")]
    # pulumi_aws names tags by `tag`, as the API does.
    refreshed = changed & {*triggers, *(["tags"] if {"tag", "tags"} & set(triggers) else [])}
    if refreshed:
        return f"replaces its nodes (by {', '.join(sorted(refreshed))}, which trigger an instance refresh)"
    lifetime = group.get("maxInstanceLifetime")
    if "maxInstanceLifetime" in changed and lifetime not in (None, 0):
        return f"replaces nodes that are older than {group.show('maxInstanceLifetime')} seconds"
    for prop in ("vpcZoneIdentifiers", "availabilityZones"):
        left = _values(group, prop)
        if prop in changed and (left is None or (_values(declared(step.before), prop) or set()) - left):
            return f"moves its nodes (by {prop})"
    return ""


def _values(resource: Resource, prop: str) -> set[str] | None:
    """Return the values of a list, None if one is unknown."""
    values = [value for _, value in resource.items(prop)]
    return None if any(is_unknown(value) for value in values) else {str(value) for value in values}


def _stopped(change: StackChange, launch: Launch, urn: str, end: dt.datetime | None) -> str:
    """Return how a new or changed action stops nodes before the block ends; empty if none does."""
    for step in change.steps:
        action = step.after
        if action is None or step.operation not in ("create", "update", "replace"):
            continue
        if action.type == BLOCK_SCHEDULE and step.before is not None:
            if _acts_on(change.after, action, "group_name", urn) and _fewer(
                declared(action).get("nodes"), number(declared(step.before).get("nodes"))
            ):
                return f"schedules {action.show('nodes')} nodes instead of {step.before.show('nodes')}"
        elif action.type == SCHEDULE and _acts_on(change.after, action, "autoscalingGroupName", urn):
            moment = _moment(action.get("startTime"))
            if moment is not None and end is not None and moment >= end - ENDS_WITHIN:
                continue
            for prop in ("desiredCapacity", "maxSize"):
                if _fewer(declared(action).get(prop), launch.maximum):
                    return f"schedules {prop}: {action.show(prop)} at {action.show('startTime')}"
    return ""


def _acts_on(stack: Stack, action: Resource, prop: str, urn: str) -> bool:
    group = stack.by_urn.get(urn)
    return group is not None and stack.refers(action, prop, group, "name")


def _fewer(wanted: object, than: Number) -> bool:
    """Return whether a size is lower, or may be; -1 is a scheduled action's word for no change."""
    if wanted is None or number(wanted) == -1:
        return False
    size = number(wanted)
    return size is UNKNOWN or than is UNKNOWN or size < than
