"""The site of each resource of a run, and the changes per site.

Programs set the tag `gpufleet:site`, but components, rules and Kubernetes objects have no tags; their site is
that of their children, of their parent, or follows from their name (`<fleet>-<env>-<site>-...`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from gpufleet.engine.api import Changes, Op, PlannedResource, ResourceEvent, RunResult
from gpufleet.plan.marks import TAG_PREFIX
from gpufleet.plan.models import FleetPlan

SITE_TAG = f"{TAG_PREFIX}site"
_STACK = "pulumi:pulumi:Stack"
_COUNTED = {Op.CREATE: "create", Op.UPDATE: "update", Op.REPLACE: "replace", Op.DELETE: "delete"}


class SiteChanges(Struct, frozen=True):
    """The (planned) changes of a run in one site; `site` is None for resources outside any site.

    `events` are the changes, one per resource, in the engine's order; `changes` counts them and the
    unchanged resources.
    """

    site: str | None
    changes: Changes
    events: tuple[ResourceEvent, ...]


def changes_by_site(
    result: RunResult, events: Iterable[ResourceEvent], plan: FleetPlan
) -> tuple[SiteChanges, ...]:
    """Return the changes of a run by site: the plan's sites in its order, others after them, None last.

    `events` are those of the run; failed and skipped ones do not count as changes.
    """
    done = {
        event.urn: event for event in events if event.status == "done" and event.op in (*_COUNTED, Op.SAME)
    }
    sites = sites_of(result.resources, done.values(), plan)
    found: dict[str | None, list[ResourceEvent]] = {}
    for event in done.values():
        found.setdefault(sites.get(event.urn), []).append(event)
    first = [site.site for site in plan.cloud]
    others = sorted(site for site in found if site is not None and site not in first)
    order = [*first, *others, *([None] if None in found else [])]
    return tuple(_counted(site, found.get(site, [])) for site in order)


def _counted(site: str | None, events: Sequence[ResourceEvent]) -> SiteChanges:
    counts = Counter(event.op for event in events)
    changes = Changes(same=counts[Op.SAME], **{name: counts[op] for op, name in _COUNTED.items()})
    return SiteChanges(site, changes, tuple(event for event in events if event.op is not Op.SAME))


def sites_of(
    resources: Iterable[PlannedResource], events: Iterable[ResourceEvent], plan: FleetPlan
) -> Mapping[str, str | None]:
    """Return URN -> site of all resources of a run; None for those of the whole account."""
    tree = _Tree(plan)
    for event in events:
        tree.add(event.urn, event.type, event.name, event.parent, {})
    for resource in resources:
        tree.add(resource.urn, resource.type, resource.name, resource.parent, resource.inputs)
    tree.count_children()
    return {urn: tree.site(urn) for urn in tree.nodes}


class _Node(Struct, frozen=True):
    name: str
    parent: str
    tag: str | None


class _Tree:
    """The resources of a run by URN, without the stack at their root."""

    def __init__(self, plan: FleetPlan) -> None:
        prefix = f"{plan.fleet}-{plan.environment}-"
        names = [site.site for site in plan.cloud]
        # The longest first: the name of a site may start with that of another one.
        self._prefixes = [(prefix + name, name) for name in sorted(names, key=len, reverse=True)]
        self.nodes: dict[str, _Node] = {}
        self._below: dict[str, set[str]] = {}

    def add(self, urn: str, kind: str, name: str, parent: str, inputs: Mapping[str, Any]) -> None:
        if kind != _STACK:
            self.nodes[urn] = _Node(name, parent, _tag(inputs))

    def count_children(self) -> None:
        """Count, for each resource, the sites in the tags below it."""
        for node in self.nodes.values():
            above = node.parent
            while node.tag is not None and above in self.nodes:
                self._below.setdefault(above, set()).add(node.tag)
                above = self.nodes[above].parent

    def site(self, urn: str) -> str | None:
        """Return the site of a resource; its name decides last, since names may overlap."""
        node = self.nodes.get(urn)
        if node is None:
            return None
        if node.tag is not None:
            return node.tag
        below = self._below.get(urn, set())
        if len(below) == 1:
            return next(iter(below))
        return self.site(node.parent) or self._by_name(node.name)

    def _by_name(self, name: str) -> str | None:
        for prefix, site in self._prefixes:
            if name == prefix or name.startswith(f"{prefix}-"):
                return site
        return None


def _tag(inputs: Mapping[str, Any]) -> str | None:
    tags = inputs.get("tags")
    value = tags.get(SITE_TAG) if isinstance(tags, Mapping) else None
    return value if isinstance(value, str) else None
