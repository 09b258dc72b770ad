"""The resource types of pulumi_aws, and which of them are taggable.

The data is derived from pulumi_aws by `aws_types_build` and ships with the package: importing pulumi_aws
would take seconds in a policy pack.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

DATA = Path(__file__).with_name("data") / "aws_types.json"
NO_TAGS = "none"

Shape = Literal["map", "list"]


@cache
def _data() -> Mapping[str, Any]:
    data: Mapping[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return data


def version() -> str:
    """Return the version of pulumi_aws that the data was derived from."""
    return str(_data()["version"])


def exists(token: str) -> bool:
    """Return whether pulumi_aws has a resource type of this name (also old names that it still has)."""
    return token in _data()["types"]


def taggable(token: str) -> Shape | None:
    """Return how the type takes tags: as a map, as a list of keys and values, or None (also if unknown)."""
    shape = _data()["types"].get(token, NO_TAGS)
    return None if shape == NO_TAGS else cast(Shape, shape)


def renamed(token: str) -> str | None:
    """Return the current name of a renamed type; None for others."""
    found = _data()["renamed"].get(token)
    return None if found is None else str(found)


def former(token: str) -> tuple[str, ...]:
    """Return former names of a type under which pulumi_aws still creates resources."""
    return tuple(old for old, new in _data()["renamed"].items() if new == token and exists(old))


def besides(token: str) -> tuple[str, ...]:
    """Return other inputs of the type for tags, in camel case (`tagSpecifications`)."""
    return tuple(_data()["besides"].get(token, ()))


def single_tag_types() -> frozenset[str]:
    """Return types whose resources are one tag of another resource, with `key` and `value`."""
    return frozenset(_data()["single"])


@cache
def taggable_types() -> frozenset[str]:
    """Return all taggable types."""
    return frozenset(token for token in _data()["types"] if taggable(token) is not None)
