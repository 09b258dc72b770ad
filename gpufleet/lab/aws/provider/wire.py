"""Converts plain Python values to and from the property values of Pulumi's provider protocol.

Handlers get plain values: integral numbers as int, secrets unwrapped, an unknown value as the string
`UNKNOWN` (the protocol's own sentinel), an archive as `{ARCHIVE: "…", "hash": "…", "assets": {…}}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulumi.provider.experimental.property_value import Computed, PropertyValue
from pulumi.runtime.rpc import UNKNOWN

from gpufleet.lab.protocol import ARCHIVE

Props = dict[str, Any]

__all__ = [
    "ARCHIVE",
    "UNKNOWN",
    "Props",
    "contains_unknown",
    "plain",
    "plain_map",
    "secret_keys",
    "wrap",
    "wrap_map",
]


def plain(value: PropertyValue) -> Any:
    """Return the plain value of a property value, without its secrets and dependencies."""
    inner = value.value
    if isinstance(inner, bool) or inner is None or isinstance(inner, str):
        return inner
    if isinstance(inner, float):
        return int(inner) if inner.is_integer() else inner
    if isinstance(inner, Computed):
        return UNKNOWN
    if isinstance(inner, Mapping):
        return {key: plain(item) for key, item in inner.items()}
    if isinstance(inner, Sequence):
        return [plain(item) for item in inner if isinstance(item, PropertyValue)]
    raise TypeError(f"a property of type {type(inner).__name__} has no plain value")


def plain_map(values: Mapping[str, PropertyValue]) -> Props:
    """Return the plain values of a map of properties, without nulls."""
    return {
        key: item for key, item in ((key, plain(value)) for key, value in values.items()) if item is not None
    }


def wrap(value: Any, *, secret: bool = False) -> PropertyValue:
    """Return a property value from a plain one."""
    if isinstance(value, Mapping):
        return PropertyValue({str(key): wrap(item) for key, item in value.items()}, is_secret=secret)
    if isinstance(value, list | tuple | set | frozenset):
        return PropertyValue([wrap(item) for item in value], is_secret=secret)
    if isinstance(value, int) and not isinstance(value, bool):
        return PropertyValue(float(value), is_secret=secret)
    return PropertyValue(value, is_secret=secret)


def wrap_map(values: Mapping[str, Any], secrets: frozenset[str] = frozenset()) -> dict[str, PropertyValue]:
    """Return property values from plain ones, without nulls; keys in `secrets` are marked secret."""
    return {key: wrap(item, secret=key in secrets) for key, item in values.items() if item is not None}


def secret_keys(values: Mapping[str, PropertyValue]) -> frozenset[str]:
    """Return the top-level keys whose values contain a secret."""
    return frozenset(key for key, value in values.items() if value.contains_secret())


def contains_unknown(value: Any) -> bool:
    """Return whether a plain value contains an unknown value."""
    if isinstance(value, str):
        return value == UNKNOWN
    if isinstance(value, Mapping):
        return any(contains_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(contains_unknown(item) for item in value)
    return False
