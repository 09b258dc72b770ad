"""Integrity of a state: dependency order, and no missing references."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from gpufleet.engine.embedded.urns import split_reference
from gpufleet.engine.errors import StateError

Resource = dict[str, Any]


def sort_by_dependency(resources: Sequence[Resource]) -> list[Resource]:
    """Sort resources so that everything they need precedes them, and keep the given order otherwise.

    Pulumi rejects a checkpoint in which a resource precedes its parent, provider or dependency. A resource
    that waits for its deletion has the same URN as its replacement: of two with one URN, a resource depends
    on the one before it, else on the first.
    """
    places: dict[str, list[int]] = {}
    for index, resource in enumerate(resources):
        places.setdefault(resource["urn"], []).append(index)
    waits = [0] * len(resources)
    waiting: list[list[int]] = [[] for _ in resources]
    for index, resource in enumerate(resources):
        for urn in _needs(resource):
            standing = places.get(urn, ())
            before = [place for place in standing if place < index] or [p for p in standing if p != index][:1]
            for place in before:
                waits[index] += 1
                waiting[place].append(index)
    if all(place < index for place, followers in enumerate(waiting) for index in followers):
        return list(resources)
    ready = deque(index for index, count in enumerate(waits) if count == 0)
    ordered: list[Resource] = []
    while ready:
        index = ready.popleft()
        ordered.append(resources[index])
        for follower in waiting[index]:
            waits[follower] -= 1
            if waits[follower] == 0:
                ready.append(follower)
    if len(ordered) != len(resources):
        raise StateError(
            "the resources in the state depend on each other in a cycle",
            remedy="`gpufleet state repair` lists the copies of the state that are complete",
        )
    return ordered


def without_gaps(resources: Sequence[Resource]) -> list[Resource]:
    """Remove references to resources that do not precede the resource; keep the order.

    As Pulumi after a refresh that found resources deleted: a dependency is dropped, a child has no parent
    any more. A missing provider cannot be replaced: that reference stays.
    """
    present: set[str] = set()
    repaired = []
    for resource in resources:
        repaired.append(_without_missing(resource, present))
        present.add(resource["urn"])
    return repaired


def _without_missing(resource: Resource, present: set[str]) -> Resource:
    if _needs(resource) <= present:
        return resource
    result = dict(resource)
    _keep(result, "dependencies", [urn for urn in resource.get("dependencies") or () if urn in present])
    needed = {
        key: [urn for urn in urns or () if urn in present]
        for key, urns in (resource.get("propertyDependencies") or {}).items()
    }
    _keep(result, "propertyDependencies", needed)
    for key in ("deletedWith", "parent"):
        if resource.get(key) not in present:
            result.pop(key, None)
    return result


def _keep(resource: Resource, key: str, value: Any) -> None:
    if value:
        resource[key] = value
    else:
        resource.pop(key, None)


def is_same(resources: Sequence[Resource], others: Sequence[Resource]) -> bool:
    """Return whether two sorted states are equal.

    Resources that are registered in parallel end in another order in each run, which does not matter. For
    two with one URN (one waits for its deletion) the order matters.
    """
    if resources == others:
        return True
    by_urn = {item["urn"]: item for item in resources}
    return len(by_urn) == len(resources) == len(others) and all(
        by_urn.get(item["urn"]) == item for item in others
    )


def problems(resources: Sequence[Resource]) -> list[str]:
    """Return what is wrong with a state; empty if it is complete."""
    found: list[str] = []
    counts = Counter(item["urn"] for item in resources if not item.get("delete"))
    found += [f"{urn} occurs {count} times" for urn, count in sorted(counts.items()) if count > 1]
    present = {item["urn"] for item in resources}
    for item in resources:
        found += [f"{item['urn']} needs {urn}, which is missing" for urn in sorted(_needs(item) - present)]
        if item["custom"] and not item.get("id"):
            found.append(f"{item['urn']} has no id")
    if not found:
        try:
            sort_by_dependency(resources)
        except StateError as error:
            found.append(error.message)
    return found


def _needs(resource: Resource) -> set[str]:
    urns = set(resource.get("dependencies") or ())
    for listed in (resource.get("propertyDependencies") or {}).values():
        urns.update(listed or ())
    urns.update((resource.get("parent", ""), resource.get("deletedWith", "")))
    if resource.get("provider"):
        urns.add(split_reference(resource["provider"])[0])
    urns -= {"", resource["urn"]}
    return urns
