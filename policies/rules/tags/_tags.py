"""Tags of resources, from maps and lists, with the provider's default tags below a resource's own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from gpufleet.resources.aws_types import taggable
from gpufleet.resources.resource import UNKNOWN, Resource, is_unknown, shown


class Tags(Struct, frozen=True):
    """The tags at `path` of a resource: key -> value, UNKNOWN if not known yet.

    `unclear`: there may be more tags. `hidden`: keys whose values must not be shown. `twice`: keys that a
    list contains more than once.
    """

    path: str
    values: Mapping[str, Any]
    unclear: bool = False
    hidden: frozenset[str] = frozenset()
    twice: frozenset[str] = frozenset()

    def show(self, key: str) -> str:
        """Return the value of a tag for a message."""
        return "[secret]" if key in self.hidden else shown(self.values.get(key))

    def over(self, below: Tags) -> Tags:
        """Return these tags merged over others: these win."""
        # An unknown tag may replace any tag below.
        if self.unclear or below is _NONE:
            return self
        return Tags(
            path=self.path,
            values={**below.values, **self.values},
            unclear=below.unclear,
            hidden=self.hidden | (below.hidden - self.values.keys()),
            twice=self.twice,
        )


_NONE = Tags("defaultTags.tags", {})


def read(resource: Resource, value: Any, path: str) -> Tags:
    """Return the tags of `value`, the map or list at `path`."""
    if value is None:
        return Tags(path, {})
    if isinstance(value, Mapping):
        known = {key: item for key, item in value.items() if item is not None}
        return Tags(path, known, hidden=_hidden(resource, path, known))
    if is_unknown(value) or not isinstance(value, Sequence):
        return Tags(path, {}, unclear=True)
    return _read_list(resource, value, path)


def _read_list(resource: Resource, entries: Sequence[Any], path: str) -> Tags:
    values: dict[str, Any] = {}
    twice: set[str] = set()
    hidden: set[str] = set()
    unclear = False
    for index, entry in enumerate(entries):
        key = entry.get("key") if isinstance(entry, Mapping) else UNKNOWN
        if is_unknown(key):
            unclear = True
            continue
        key = str(key)
        if key in values:
            twice.add(key)
        if entry.get("value") is not None:
            values[key] = entry["value"]
        if _is_secret(resource, f"{path}[{index}].value"):
            hidden.add(key)
    return Tags(path, values, unclear, frozenset(hidden), frozenset(twice))


def _hidden(resource: Resource, path: str, keys: Mapping[str, Any]) -> frozenset[str]:
    if not resource.secrets:
        return frozenset()
    return frozenset(key for key in keys if _is_secret(resource, f"{path}.{key}"))


def _is_secret(resource: Resource, path: str) -> bool:
    return any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in resource.secrets)


def own(resource: Resource) -> Tags:
    """Return the resource's own tags."""
    return read(resource, resource.props.get("tags"), "tags")


def effective(resource: Resource) -> Tags:
    """Return the tags that the resource gets: its own, over the default tags of its provider.

    AWS's providers merge default tags into the `tags` of every type that takes a map of them, but not into
    an Auto Scaling group's list or a launch template's specifications. The real provider writes the result
    into `tagsAll`, which is unknown as a whole if one value is.
    """
    mine = own(resource)
    if taggable(resource.type) != "map":
        return mine
    result = resource.props.get("tagsAll")
    beneath = default_tags(resource)
    if isinstance(result, Mapping):
        # Only this property has the default tags of the provider's environment variables.
        beneath = Tags("tagsAll", {**beneath.values, **result}, hidden=frozenset(result))
    return mine.over(beneath)


def default_tags(resource: Resource) -> Tags:
    """Return the default tags of the provider. Their values are hidden: provider inputs may be secret."""
    # An S3 object can remove or replace the provider's default tags.
    if "overrideProvider" in resource.props:
        other = resource.get("overrideProvider.defaultTags.tags")
        if other is not None:
            return read(resource, other, "overrideProvider.defaultTags.tags")
    given = resource.provider.props.get("defaultTags") if resource.provider is not None else None
    return _NONE if given is None else provider_tags(given)


def provider_tags(value: Any) -> Tags:
    """Return the map in a provider's `defaultTags`, which SDKs send as an object or as JSON text."""
    path = "defaultTags.tags"
    found = decoded(value)
    tags = found.get("tags") if isinstance(found, Mapping) else found
    if is_unknown(tags):
        return Tags(path, {}, unclear=True)
    known = {str(key): each for key, each in tags.items()} if isinstance(tags, Mapping) else {}
    return Tags(path, known, hidden=frozenset(known))


def decoded(value: Any) -> Any:
    """Return a provider's nested input: SDKs send it as JSON text."""
    return _parsed(value) if isinstance(value, str) else value


@lru_cache(maxsize=64)
def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def propagated(resource: Resource) -> Tags:
    """Return the tags of an Auto Scaling group that its instances get."""
    entries = resource.props.get("tags")
    if entries is None:
        return Tags("tags", {})
    if is_unknown(entries) or isinstance(entries, Mapping) or not isinstance(entries, Sequence):
        return Tags("tags", {}, unclear=True)
    reaching: list[Any] = []
    for entry in entries:
        if not isinstance(entry, Mapping) or is_unknown(entry.get("propagateAtLaunch")):
            reaching.append(UNKNOWN)
        elif entry.get("propagateAtLaunch") in (True, "true"):
            reaching.append(entry)
        else:
            # Only its path is needed, to find secrets.
            reaching.append({"key": "", "value": None})
    return _read_list(resource, reaching, "tags")


def specified(template: Resource, kind: str) -> Tags | None:
    """Return the tags of one kind (`volume`) in a launch template; None if it has none of the kind.

    An entry of an unknown kind counts for every kind.
    """
    unclear: Tags | None = None
    for path, entry in template.items("tagSpecifications"):
        known = entry.get("resourceType") if isinstance(entry, Mapping) else UNKNOWN
        if known == kind:
            return read(template, entry.get("tags"), f"{path}.tags")
        if is_unknown(known):
            unclear = Tags(path, {}, unclear=True)
    return unclear


def misspelt(values: Mapping[str, Any], key: str) -> Iterator[str]:
    """Yield keys that differ from `key` only in case, blanks, dashes or underscores."""
    wanted = folded(key)
    return (each for each in values if each != key and folded(each) == wanted)


def folded(key: str) -> str:
    """Normalise a key: case, blanks at the ends, `_` for `-`."""
    return key.strip().casefold().replace("_", "-").replace(" ", "-")
