"""What makes a state whole: an order in which everything is preceded by what it needs, and no gaps."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from gpufleet.engine.embedded.urns import split_reference
from gpufleet.engine.errors import StateError

Resource = dict[str, Any]


def in_order(resources: Sequence[Resource]) -> list[Resource]:
    """The resources with everything they need before them, otherwise in the order given.

    Pulumi refuses a checkpoint in which a resource stands before its parent, provider or dependency.
    Resources that wait to be deleted share their URN with their replacement: of two with one URN a
    resource waits for the one that stands before it, else for the first.
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
            "the resources in the state depend on each other in a circle",
            remedy="`gpufleet state repair` lists the copies of the state that are whole",
        )
    return ordered


def without_gaps(resources: Sequence[Resource]) -> list[Resource]:
    """The resources, in their order, without references to any that is not there before them.

    As Pulumi does after a refresh that found resources gone: a dependency is dropped, a child is left
    without a parent. A provider that is not there cannot be made up for: that reference stays.
    """
    present: set[str] = set()
    mended = []
    for resource in resources:
        mended.append(_mended(resource, present))
        present.add(resource["urn"])
    return mended


def _mended(resource: Resource, present: set[str]) -> Resource:
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
    """Whether two ordered states say the same.

    Resources that are registered side by side end in another order in each run, which says nothing.
    Of two with one URN (one waits to be deleted) the order does: then it has to be the same.
    """
    if resources == others:
        return True
    by_urn = {item["urn"]: item for item in resources}
    return len(by_urn) == len(resources) == len(others) and all(
        by_urn.get(item["urn"]) == item for item in others
    )


def problems(resources: Sequence[Resource]) -> list[str]:
    """What is wrong with a state, in words; empty when it is whole."""
    found: list[str] = []
    counts = Counter(item["urn"] for item in resources if not item.get("delete"))
    found += [f"{urn} is there {count} times" for urn, count in sorted(counts.items()) if count > 1]
    present = {item["urn"] for item in resources}
    for item in resources:
        found += [f"{item['urn']} needs {urn}, which is not there" for urn in sorted(_needs(item) - present)]
        if item["custom"] and not item.get("id"):
            found.append(f"{item['urn']} has no id")
    if not found:
        try:
            in_order(resources)
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
