"""A resource as a rule sees it: plain values, with what is unknown or ignored made explicit.

The policy SDK raises on the first unknown value that a rule touches and turns the rule into an
advice for that run. Here an unknown value is `UNKNOWN`, so every rule says itself what it makes of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeGuard

_PART = re.compile(r"[^.\[\]]+")


class Unknown(Enum):
    """The one value that stands for what is not known before the resource exists."""

    UNKNOWN = "not known yet"

    def __bool__(self) -> bool:
        raise TypeError("an unknown value is neither true nor false: ask is_unknown() first")

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown.UNKNOWN


def is_unknown(value: object) -> TypeGuard[Unknown]:
    """Whether this very value is unknown (its parts may still be; see `holds_unknown`)."""
    return value is UNKNOWN


def holds_unknown(value: object) -> bool:
    """Whether the value or any part of it is unknown."""
    if value is UNKNOWN:
        return True
    if isinstance(value, Mapping):
        return any(holds_unknown(item) for item in value.values())
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return any(holds_unknown(item) for item in value)
    return False


@dataclass(frozen=True, slots=True)
class ResourceOptions:
    """Resource options that rules may care for. `ignore_changes` holds property paths in camel case.

    `retain_on_delete` is known of what is in a state alone: Pulumi's Analyzer protocol lacks it.
    """

    protect: bool = False
    ignore_changes: tuple[str, ...] = ()
    delete_before_replace: bool | None = None
    aliases: tuple[str, ...] = ()
    retain_on_delete: bool = False


@dataclass(frozen=True, slots=True)
class ProviderInstance:
    """The provider instance that a resource is made with; `props` are its inputs (`region`, ...)."""

    type: str
    name: str
    urn: str
    props: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource with its checked inputs in Pulumi's own names (camel case).

    `props` has plain Python values; unknown ones are `UNKNOWN` at any depth, secret ones are in the
    clear and their paths in `secrets`, so that messages can leave them out (see `show`). For a rule
    over the stack, `props` are the outputs with the declared inputs on top, and `inputs` the inputs
    alone. `parent`, `dependencies` and `property_dependencies` (property -> URNs) are URNs; the
    latter two are filled in for stack rules alone, as in Pulumi's protocol.
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
        """The value at `metadataOptions.httpTokens` or `subnets[0]`; UNKNOWN below an unknown value.

        `default` answers where nothing is set (null counts as not set).
        """
        value: Any = self.props
        for part in _split(path):
            if value is UNKNOWN:
                return UNKNOWN
            # The usual case first: to ask for an abstract class costs ten times as much.
            if type(value) is dict or isinstance(value, Mapping):
                value = value.get(part)
            elif isinstance(value, Sequence) and not isinstance(value, str) and part.isdigit():
                value = value[int(part)] if int(part) < len(value) else None
            else:
                return default
        return default if value is None else value

    def items(self, path: str) -> Iterator[tuple[str, Any]]:
        """The entries of the list at `path` with the path of each; a single value counts as a list.

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
        """Whether changes of the property, of what holds it or of a part of it are ignored.

        What the program says of it then never applies, or not all of it.
        """
        wanted = _parts(prop)
        return any(
            all(one in (other, "*") for one, other in zip(_parts(path), wanted, strict=False))
            for path in self.options.ignore_changes
        )

    def show(self, path: str) -> str:
        """The value at `path` for a message: `[secret]` and `not known yet` in place of such values."""
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
    """The parts of a property path as Pulumi writes them: `tags.team`, `rules[0]`, `["tags"]["team"]`."""
    return [part.strip('"') for part in _split(path)]


def shown(value: object) -> str:
    """A value as messages write it, at most 80 characters long."""
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
