"""The resources of a whole stack, and their references to each other.

In a preview ids are unknown, so `vpcId == vpc.id` cannot be compared. Pulumi always records which resources a
property was computed from: references follow these records, and equal ids if both are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from gpufleet.resources.resource import UNKNOWN, Resource


class Stack:
    """All resources of one stack, components included."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.resources: tuple[Resource, ...] = tuple(resources)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self.resources)

    def __len__(self) -> int:
        return len(self.resources)

    @cached_property
    def by_urn(self) -> dict[str, Resource]:
        """Return URN -> resource."""
        return {resource.urn: resource for resource in self.resources}

    @cached_property
    def _by_type(self) -> dict[str, list[Resource]]:
        found: dict[str, list[Resource]] = {}
        for resource in self.resources:
            found.setdefault(resource.type, []).append(resource)
        return found

    def of_type(self, *types: str) -> Sequence[Resource]:
        """Return the resources of any of the types."""
        return [resource for each in types for resource in self._by_type.get(each, ())]

    def references(self, resource: Resource, *props: str, types: Sequence[str] = ()) -> list[Resource]:
        """Return the resources that the properties (top-level names) were computed from, by type."""
        urns = dict.fromkeys(urn for prop in props for urn in resource.property_dependencies.get(prop, ()))
        found = [self.by_urn[urn] for urn in urns if urn in self.by_urn]
        return [each for each in found if not types or each.type in types]

    def refers(self, resource: Resource, prop: str, target: Resource, attribute: str = "id") -> bool:
        """Return whether `prop` refers to `target`: computed from it, or equal to its `attribute`."""
        if target.urn in resource.property_dependencies.get(prop, ()):
            return True
        value, known = resource.get(prop), target.get(attribute)
        if known is None or known is UNKNOWN or value is None or value is UNKNOWN:
            return False
        return bool(value == known or (isinstance(value, (list, tuple)) and known in value))

    def referrers(
        self, target: Resource, prop: str, *types: str, attribute: str = "id"
    ) -> Iterator[Resource]:
        """Return the resources of the types whose `prop` refers to `target`."""
        for resource in self.of_type(*types):
            if self.refers(resource, prop, target, attribute):
                yield resource

    def ancestors(self, resource: Resource) -> Iterator[Resource]:
        """Yield the components that contain the resource, the nearest first."""
        parent = self.by_urn.get(resource.parent)
        while parent is not None:
            yield parent
            parent = self.by_urn.get(parent.parent)
