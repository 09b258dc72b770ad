"""Placement groups of launches."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gpufleet.resources.launches import Launch, declared
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import PLACEMENT_GROUP

_PLACES = (
    "placement.groupName",
    "placement.groupId",
    "placementGroup",
    "placementGroupId",
    "computeResources.placementGroup",
)


class PlacementUse(Struct, frozen=True):
    """A placement group that a resource refers to at `prop`; `group` is set if it is in this stack."""

    resource: Resource
    prop: str
    group: Resource | None
    name: object


def placements(stack: Stack, launch: Launch) -> Iterator[PlacementUse]:
    """Yield the placement groups that the launch or its templates refer to."""
    for source in (launch.resource, *launch.templates):
        yield from placements_of(stack, source)


def placements_of(stack: Stack, source: Resource) -> Iterator[PlacementUse]:
    """Yield the placement groups that one resource refers to."""
    for path in _PLACES:
        value = source.get(path)
        if value is None or value == "":
            continue
        top = path.partition(".")[0]
        found = stack.references(source, top, types=(PLACEMENT_GROUP,))
        if not found:
            found = [each for each in stack.of_type(PLACEMENT_GROUP) if value in _names(each)]
        yield PlacementUse(source, path, next(iter(found), None), value)


def _names(group: Resource) -> list[str]:
    known = (group.get(prop) for prop in ("name", "id", "placementGroupId"))
    return [value for value in known if isinstance(value, str)]


def strategy(group: Resource) -> object:
    """Return the strategy of a placement group of this stack."""
    return declared(group).get("strategy")
