"""Properties of a resource by their name, at any depth, and by a path through lists."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from gpufleet.resources.resource import Resource


def named(resource: Resource, names: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield path and value of each property with one of these names; lists and blocks are searched."""
    yield from _inside(resource.props, "", names)


def _inside(value: Any, path: str, names: Collection[str]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            here = f"{path}.{key}" if path else str(key)
            if key in names and item is not None:
                yield here, item
            # Names of tags are the user's own.
            elif key not in ("tags", "tagsAll"):
                yield from _inside(item, here, names)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _inside(item, f"{path}[{index}]", names)


def expanded(resource: Resource, place: str) -> Iterator[str]:
    """Yield the paths of a place with entries of lists: `a[0].b` and `a[1].b` for `a[].b`."""
    head, more, tail = place.partition("[].")
    if more:
        for path, _ in resource.items(head):
            yield from expanded(resource, f"{path}.{tail}")
    else:
        yield head
