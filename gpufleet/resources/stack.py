"""The resources of a whole stack, and how they refer to each other.

In a preview ids are unknown, so `vpcId == vpc.id` cannot be asked. Pulumi records which resources a
property was computed from, and that is known at all times: references are followed by it, and by
equal ids where both are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from gpufleet.resources.resource import UNKNOWN, Resource


class Stack:
    """All resources of one stack, components too."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.resources: tuple[Resource, ...] = tuple(resources)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self.resources)

    def __len__(self) -> int:
        return len(self.resources)

    @cached_property
    def by_urn(self) -> dict[str, Resource]:
        """URN -> resource."""
        return {resource.urn: resource for resource in self.resources}

    @cached_property
    def _by_type(self) -> dict[str, list[Resource]]:
        found: dict[str, list[Resource]] = {}
        for resource in self.resources:
            found.setdefault(resource.type, []).append(resource)
        return found

    def of_type(self, *types: str) -> Sequence[Resource]:
        """The resources of any of the types."""
        return [resource for each in types for resource in self._by_type.get(each, ())]

    def references(self, resource: Resource, *props: str, types: Sequence[str] = ()) -> list[Resource]:
        """The resources that the properties (top-level names) were computed from; of some types alone."""
        urns = dict.fromkeys(urn for prop in props for urn in resource.property_dependencies.get(prop, ()))
        found = [self.by_urn[urn] for urn in urns if urn in self.by_urn]
        return [each for each in found if not types or each.type in types]

    def refers(self, resource: Resource, prop: str, target: Resource, attribute: str = "id") -> bool:
        """Whether `prop` of `resource` refers to `target`: computed from it, or equal to its `attribute`."""
        if target.urn in resource.property_dependencies.get(prop, ()):
            return True
        value, known = resource.get(prop), target.get(attribute)
        if known is None or known is UNKNOWN or value is None or value is UNKNOWN:
            return False
        return bool(value == known or (isinstance(value, (list, tuple)) and known in value))

    def referrers(
        self, target: Resource, prop: str, *types: str, attribute: str = "id"
    ) -> Iterator[Resource]:
        """The resources of the types whose `prop` refers to `target`."""
        for resource in self.of_type(*types):
            if self.refers(resource, prop, target, attribute):
                yield resource

    def ancestors(self, resource: Resource) -> Iterator[Resource]:
        """The components that hold the resource, the nearest first."""
        parent = self.by_urn.get(resource.parent)
        while parent is not None:
            yield parent
            parent = self.by_urn.get(parent.parent)
