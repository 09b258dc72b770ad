"""The lines of the fleet file that declare a resource."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from msgspec import Struct

from gpufleet.plan.marks import TAG_PREFIX
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack
from gpufleet.spec.models import FleetSpec
from gpufleet.spec.paths import FieldPath, parse_path
from gpufleet.spec.source import SourceMap

_SITE, _GROUP, _STORAGE = (f"{TAG_PREFIX}{name}" for name in ("site", "node-group", "storage"))
_CLUSTER = "gpufleet:cluster:EksCluster"
_NETWORK = "gpufleet:network:Network"
_BUDGET = "gpufleet:budget:"


class Place(Struct, frozen=True):
    """The owner of a resource (a node group or a storage), and its path in the fleet file."""

    site: str
    owner: str
    kind: str
    path: tuple[str | int, ...]


NOWHERE = Place("", "", "", ("environment",))


@dataclass(frozen=True)
class Locator:
    """Finds the declarations of a fleet file for resources of its stacks, before and after a change."""

    spec: FleetSpec
    source: SourceMap
    stacks: tuple[Stack, ...] = ()
    _known: dict[str, Place] = field(default_factory=dict, repr=False, compare=False)

    def at(self, urn: str, fleet_field: str = "") -> tuple[str, int]:
        """Return file and line of a violation, by default those of the environment.

        `fleet_field` is a field of the fleet file, or one of the node group, storage or site that the
        resource belongs to.
        """
        place = self.place(urn)
        parts = _parts(fleet_field)
        if not parts or parts == place.path[: len(parts)]:
            return self.source.at(self._narrow(place, urn))
        if parts[0] in type(self.spec).model_fields and not self.source.has((*place.path, parts[0])):
            return self.source.at(parts)
        return self.source.at((*place.path, *parts) if place.kind else parts)

    def place(self, urn: str) -> Place:
        """Return the owner of a resource by its tags, those of its components, or their names."""
        if urn not in self._known:
            self._known[urn] = self._find(urn)
        return self._known[urn]

    def _find(self, urn: str) -> Place:
        best = NOWHERE
        for resource in self._up(urn):
            for place in (self._by_tags(_tags(resource)), self._named.get(resource.name)):
                if place is not None and place.kind in ("node_groups", "storage"):
                    return place
                if place is not None and best is NOWHERE:
                    best = place
            if best is NOWHERE:
                best = self._by_prefix(resource.name) or NOWHERE
        return best

    def _up(self, urn: str) -> Iterator[Resource]:
        """Yield the resource and its parent components."""
        for stack in self.stacks:
            resource = stack.by_urn.get(urn)
            if resource is not None:
                yield resource
                yield from (each for each in stack.ancestors(resource) if not each.type.startswith("pulumi:"))
                return

    def _by_tags(self, tags: Mapping[str, str]) -> Place | None:
        site = tags.get(_SITE, "")
        for key, kind in ((_GROUP, "node_groups"), (_STORAGE, "storage")):
            if key in tags:
                return self._places.get((site, kind, tags[key]))
        return self._places.get((site, "", "")) if site else None

    @cached_property
    def _places(self) -> dict[tuple[str, str, str], Place]:
        """(site, kind, name) -> place; kind and name are empty for the site itself."""
        found: dict[tuple[str, str, str], Place] = {}
        for index, site in enumerate(self.spec.cloud):
            path: FieldPath = ("cloud", index)
            found[site.site, "", ""] = Place(site.site, "", "cloud", tuple(path))
            for kind in ("node_groups", "storage"):
                for number, each in enumerate(getattr(site, kind)):
                    place = Place(site.site, each.name, kind, (*path, kind, number))
                    found[site.site, kind, each.name] = place
        for index, rack in enumerate(self.spec.onprem):
            found[rack.site, "", ""] = Place(rack.site, "", "onprem", ("onprem", index))
        return found

    @cached_property
    def _named(self) -> dict[str, Place]:
        """Names of components: `<fleet>-<environment>-<site>[-<group or storage>]`."""
        prefix = f"{self.spec.fleet}-{self.spec.environment}"
        return {
            "-".join(filter(None, (prefix, place.site, place.owner))): place
            for place in self._places.values()
        }

    def _by_prefix(self, name: str) -> Place | None:
        candidates = [known for known in self._named if name.startswith(f"{known}-")]
        return self._named[max(candidates, key=len)] if candidates else None

    def _narrow(self, place: Place, urn: str) -> tuple[str | int, ...]:
        """Return a part of a site or file that the resource type belongs to."""
        types = {resource.type for resource in self._up(urn)}
        for known, part in ((_CLUSTER, "kubernetes"), (_NETWORK, "network")):
            if place.kind == "cloud" and known in types and self.source.has((*place.path, part)):
                return (*place.path, part)
        if place is NOWHERE and any(each.startswith((_BUDGET, "aws:budgets/")) for each in types):
            return ("budget",)
        return place.path


def _tags(resource: Resource) -> dict[str, str]:
    tags = resource.props.get("tags")
    if not isinstance(tags, Mapping):
        return {}
    return {key: value for key, value in tags.items() if isinstance(value, str)}


def _parts(fleet_field: str) -> tuple[str | int, ...]:
    try:
        return parse_path(fleet_field)
    except ValueError:
        return ()
