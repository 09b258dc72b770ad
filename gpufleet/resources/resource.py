"""A resource for rules: plain values, with explicit unknown and ignored ones.

The policy SDK raises on the first unknown value that a rule reads, and makes the rule advisory for that run.
Here an unknown value is `UNKNOWN`, so that every rule decides how it counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeGuard

from msgspec import Struct, field

_PART = re.compile(r"[^.\[\]]+")


class Unknown(Enum):
    """The only value for what is not known before the resource exists."""

    UNKNOWN = "not known yet"

    def __bool__(self) -> bool:
        raise TypeError("an unknown value is neither true nor false: call is_unknown() first")

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown.UNKNOWN


def is_unknown(value: object) -> TypeGuard[Unknown]:
    """Return whether this value itself is unknown (for its parts see `holds_unknown`)."""
    return value is UNKNOWN


def holds_unknown(value: object) -> bool:
    """Return whether the value or any part of it is unknown."""
    if value is UNKNOWN:
        return True
    if isinstance(value, Mapping):
        return any(holds_unknown(item) for item in value.values())
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return any(holds_unknown(item) for item in value)
    return False


class ResourceOptions(Struct, frozen=True):
    """Resource options for rules. `ignore_changes` contains property paths in camel case.

    `retain_on_delete` is known only for resources in a state: Pulumi's Analyzer protocol lacks it.
    """

    protect: bool = False
    ignore_changes: tuple[str, ...] = ()
    delete_before_replace: bool | None = None
    aliases: tuple[str, ...] = ()
    retain_on_delete: bool = False


class ProviderInstance(Struct, frozen=True):
    """The provider instance of a resource; `props` are its inputs (`region`, ...)."""

    type: str
    name: str
    urn: str
    props: Mapping[str, Any] = field(default_factory=dict)


class Resource(Struct, frozen=True):
    """One resource with its checked inputs under Pulumi's own names (camel case).

    `props` contains plain Python values; unknown ones are `UNKNOWN` at any depth, secret ones are in the
    clear and their paths in `secrets`, so that messages can omit them (see `show`). For a rule on the stack,
    `props` are the outputs overridden by the declared inputs, and `inputs` only the inputs. `parent`,
    `dependencies` and `property_dependencies` (property -> URNs) are URNs; the latter two are set only for
    stack rules, as in Pulumi's protocol.
    """

    type: str
    name: str
    urn: str
    props: Mapping[str, Any]
    inputs: Mapping[str, Any] | None = None
    options: ResourceOptions = ResourceOptions()
    provider: ProviderInstance | None = None
    parent: str = ""
    dependencies: tuple[str, ...] = ()
    property_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()

    def get(self, path: str, default: Any = None) -> Any:
        """Return the value at `metadataOptions.httpTokens` or `subnets[0]`; UNKNOWN below an unknown value.

        `default` is returned if nothing is set (null counts as not set).
        """
        value: Any = self.props
        for part in _split(path):
            if value is UNKNOWN:
                return UNKNOWN
            # The common case first: a check of an abstract class takes ten times as long.
            if type(value) is dict or isinstance(value, Mapping):
                value = value.get(part)
            elif isinstance(value, Sequence) and not isinstance(value, str) and part.isdigit():
                value = value[int(part)] if int(part) < len(value) else None
            else:
                return default
        return default if value is None else value

    def items(self, path: str) -> Iterator[tuple[str, Any]]:
        """Yield the entries of the list at `path` with the path of each; a single value counts as a list.

        An unknown list yields one UNKNOWN.
        """
        value = self.get(path)
        if value is None:
            return
        if value is UNKNOWN or isinstance(value, (str, Mapping)) or not isinstance(value, Sequence):
            yield path, value
            return
        for index, item in enumerate(value):
            yield f"{path}[{index}]", item

    def ignores(self, prop: str) -> bool:
        """Return whether changes of the property, its parent or a part of it are ignored.

        The program's value then does not apply, or only partly.
        """
        wanted = _parts(prop)
        return any(
            all(one in (other, "*") for one, other in zip(_parts(path), wanted, strict=False))
            for path in self.options.ignore_changes
        )

    def show(self, path: str) -> str:
        """Return the value at `path` for a message: `[secret]` and `not known yet` replace such values."""
        if any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in self.secrets):
            return "[secret]"
        value = self.get(path)
        if any(each.startswith((f"{path}.", f"{path}[")) for each in self.secrets):
            return "[holds a secret]"
        return shown(value)


@lru_cache(maxsize=4096)
def _split(path: str) -> tuple[str, ...]:
    return tuple(_PART.findall(path))


def _parts(path: str) -> list[str]:
    """Return the parts of a property path of Pulumi: `tags.team`, `rules[0]`, `["tags"]["team"]`."""
    return [part.strip('"') for part in _split(path)]


def shown(value: object) -> str:
    """Return a value for a message, at most 80 characters long."""
    if value is None:
        return "not set"
    if value is UNKNOWN:
        return str(UNKNOWN.value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
