"""Properties by their name, at any depth of a resource's inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from gpufleet.resources.resource import Resource

_DEEPEST = 12


def named(resource: Resource, names: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield path and value of each property with one of these names; lists and blocks are searched."""
    yield from _inside(resource.props, "", names, 0)


def _inside(value: Any, path: str, names: Collection[str], depth: int) -> Iterator[tuple[str, Any]]:
    if depth > _DEEPEST:
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            here = f"{path}.{key}" if path else str(key)
            if key in names and item is not None:
                yield here, item
            # Names of tags are the user's own.
            elif key not in ("tags", "tagsAll"):
                yield from _inside(item, here, names, depth + 1)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _inside(item, f"{path}[{index}]", names, depth + 1)
