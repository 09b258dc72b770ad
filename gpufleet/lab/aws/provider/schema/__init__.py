"""pulumi_aws' declarations of each type that the provider serves: properties, wire types, requirements.

The table `aws.json` is derived from the pinned pulumi_aws by `schema.build`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from gpufleet.lab.aws.provider.wire import UNKNOWN

Type = str | dict[str, Any]


class Struct(msgspec.Struct, frozen=True):
    """A set of named properties: the inputs of a resource or a nested block."""

    properties: Mapping[str, Type]
    required: frozenset[str]


class ResourceSchema(msgspec.Struct, frozen=True):
    """Inputs and outputs of one resource type; outputs include every input."""

    token: str
    inputs: Struct
    outputs: Mapping[str, Type]

    @property
    def computed_only(self) -> frozenset[str]:
        """Return outputs that no program can set."""
        return frozenset(self.outputs) - frozenset(self.inputs.properties)

    @property
    def tagged(self) -> bool:
        """Return whether the type has a map of tags that includes the provider's default tags."""
        return "tagsAll" in self.outputs and isinstance(self.inputs.properties.get("tags"), dict)


class FunctionSchema(msgspec.Struct, frozen=True):
    """Arguments and results of one function (invoke)."""

    token: str
    inputs: Struct
    outputs: frozenset[str]


class Problem(msgspec.Struct, frozen=True):
    """A property that does not match the schema: its path and the reason, with the remedy."""

    path: str
    reason: str


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(Path(__file__).with_name("aws.json").read_text(encoding="utf-8"))
    return loaded


@lru_cache(maxsize=256)
def resource(token: str) -> ResourceSchema:
    """Return the schema of a resource type; KeyError for a type that the table lacks."""
    entry = _table()["resources"][token]
    return ResourceSchema(token, Struct(entry["inputs"], frozenset(entry["required"])), entry["outputs"])


@lru_cache(maxsize=64)
def function(token: str) -> FunctionSchema:
    """Return the schema of a function; KeyError for one that the table lacks."""
    entry = _table()["functions"][token]
    return FunctionSchema(
        token, Struct(entry["inputs"], frozenset(entry["required"])), frozenset(entry["outputs"])
    )


@lru_cache(maxsize=1024)
def struct(reference: str) -> Struct:
    """Return a nested block by its reference in the table."""
    entry = _table()["types"][reference]
    return Struct(entry["properties"], frozenset(entry["required"]))


def problems(block: Struct, values: Mapping[str, Any], path: str = "") -> Iterator[Problem]:
    """Yield what the block does not allow in `values`: unknown, missing and mistyped properties."""
    for key, value in values.items():
        if key.startswith("__"):
            continue
        here = f"{path}.{key}" if path else key
        if key not in block.properties:
            near = difflib.get_close_matches(key, block.properties, n=1)
            hint = (
                f": did you mean {near[0]!r}?" if near else f" (known: {', '.join(sorted(block.properties))})"
            )
            yield Problem(here, f"{key!r} is not a property of this type{hint}")
        elif value is not None:
            yield from _mistyped(block.properties[key], value, here)
    for key in sorted(block.required):
        if values.get(key) is None:
            here = f"{path}.{key}" if path else key
            yield Problem(here, f"{key!r} is required and missing: set it")


def _mistyped(kind: Type, value: Any, path: str) -> Iterator[Problem]:
    if value == UNKNOWN or kind == "any":
        return
    if isinstance(kind, str):
        if not _scalar_fits(kind, value):
            yield Problem(path, f"{value!r} is not of type {kind}")
    elif "array" in kind:
        if not isinstance(value, list):
            yield Problem(path, f"{value!r} is not a list")
            return
        for index, item in enumerate(value):
            if item is not None:
                yield from _mistyped(kind["array"], item, f"{path}[{index}]")
    elif not isinstance(value, dict):
        yield Problem(path, f"{value!r} is not an object")
    elif "map" in kind:
        for key, item in value.items():
            if not key.startswith("__"):
                yield from _mistyped(kind["map"], item, f"{path}.{key}")
    else:
        yield from problems(struct(kind["ref"]), value, path)


def _scalar_fits(kind: str, value: Any) -> bool:
    """Return whether a scalar has, or converts without loss to, the wire type."""
    if kind == "document":
        return isinstance(value, str | dict)
    if kind == "string":
        return isinstance(value, str | bool | int | float)
    if kind == "boolean":
        return isinstance(value, bool) or value in {"true", "false"}
    if isinstance(value, bool):
        return False
    if isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return False
        return True
    return isinstance(value, int) or (kind == "number" and isinstance(value, float))
