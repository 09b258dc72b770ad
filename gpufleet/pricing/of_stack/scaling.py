"""Changes of a group's size after its creation: schedules, Capacity Blocks and warm pools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet.pricing.cost import Sizes
from gpufleet.pricing.of_stack.context import Pricing
from gpufleet.pricing.of_stack.inputs import count, declared, held, text, whole
from gpufleet.pricing.rates import UnpricedError
from gpufleet.resources.resource import UNKNOWN, Resource
from gpufleet.resources.types import AUTO_SCALING_GROUP, BLOCK_SCHEDULE, NODE_GROUP, ORDERED_CAPACITY
from gpufleet.resources.types import SCHEDULE as SCALING_SCHEDULE


def raised(pricing: Pricing, resource: Resource, sizes: Sizes) -> Sizes:
    """Return the sizes including schedules, which can raise the maximum, and those of blocks."""
    for schedule in schedules_of(pricing, resource):
        if schedule.type == BLOCK_SCHEDULE:
            sizes = sizes.least(count(schedule, "nodes"))
            continue
        held(schedule, "maxSize", "desiredCapacity", "minSize")
        least = _scheduled(schedule, "minSize")
        most = max(sizes.maximum, _scheduled(schedule, "maxSize"))
        wanted = max(sizes.expected, least, _scheduled(schedule, "desiredCapacity"))
        sizes = Sizes(sizes.minimum, wanted, max(most, wanted))
    for source in _sources(pricing, resource):
        expected = whole(source.get("expected"), "the expected nodes of the order")
        sizes = sizes.least(whole(source.get("paid"), "the paid nodes of the order"))
        sizes = Sizes(sizes.minimum, max(sizes.expected, expected), sizes.maximum)
    return Sizes(sizes.minimum, sizes.expected, max(sizes.maximum, sizes.expected))


def _sources(pricing: Pricing, group: Resource) -> list[Mapping[str, Any]]:
    """Return the entries of a group in orders, which name its resource: its name in AWS may not be known
    yet."""
    return [
        source
        for order in pricing.stack.of_type(ORDERED_CAPACITY)
        for place in order.get("places") or ()
        for source in place
        if source.get("resource") == group.name
    ]


def _scheduled(schedule: Resource, prop: str) -> int:
    value = declared(schedule, prop)
    # -1 keeps the group's value.
    return 0 if value in (None, -1, "-1") else whole(value, f"{prop} of the schedule {schedule.name}")


def schedules_of(pricing: Pricing, group: Resource) -> list[Resource]:
    """Return the schedules that change the size of a group."""
    if pricing.schedules is None:
        pricing.schedules = {}
        for schedule in pricing.stack.of_type(SCALING_SCHEDULE, BLOCK_SCHEDULE):
            target = scheduled_group(pricing, schedule)
            if target is not None:
                pricing.schedules.setdefault(target.urn, []).append(schedule)
    return pricing.schedules.get(group.urn, [])


def scheduled_group(pricing: Pricing, schedule: Resource) -> Resource | None:
    """Return the group that a schedule changes, None if it is not in the stack."""
    prop = "autoscalingGroupName" if schedule.type == SCALING_SCHEDULE else "group_name"
    kinds = (AUTO_SCALING_GROUP, NODE_GROUP)
    name = schedule.get(prop)
    if isinstance(name, str):
        for each in pricing.stack.of_type(AUTO_SCALING_GROUP):
            if each.get("name") == name:
                return each
    found = pricing.stack.references(schedule, prop, types=kinds)
    return found[0] if len(found) == 1 else None


def price_schedule(pricing: Pricing, resource: Resource) -> None:
    """Raise `UnpricedError` for a schedule of a group outside of the stack. Others count in their group."""
    if scheduled_group(pricing, resource) is None:
        raise UnpricedError("the group that it scales is not in this stack")


def with_warm_pool(resource: Resource, sizes: Sizes, path: str) -> tuple[Sizes, Sizes]:
    """Return running and existing nodes. A warm pool keeps extra nodes, stopped or running."""
    pool = declared(resource, path)
    if pool is None:
        return sizes, sizes
    if pool is UNKNOWN:
        raise UnpricedError(f"{path} is not known yet")
    most = declared(resource, f"{path}.maxGroupPreparedCapacity")
    prepared = sizes.maximum if most in (None, -1) else whole(most, f"{path}.maxGroupPreparedCapacity")
    kept = count(resource, f"{path}.minSize", default=0)
    existing = Sizes(
        sizes.minimum + kept,
        max(sizes.expected + kept, prepared),
        max(sizes.maximum, prepared, sizes.minimum + kept),
    )
    state = (text(resource, f"{path}.poolState") or "Stopped").lower()
    return (existing if state == "running" else sizes), existing
