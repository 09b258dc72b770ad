"""Properties by their name, at any depth of a resource's inputs."""

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
