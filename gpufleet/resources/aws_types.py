"""Which resource types pulumi_aws has, and which of them carry tags.

The data is derived from pulumi_aws by `aws_types_build` and ships with the package, since importing
pulumi_aws would take a policy pack seconds.
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
    """The version of pulumi_aws that the data was derived from."""
    return str(_data()["version"])


def exists(token: str) -> bool:
    """Whether pulumi_aws has the resource type, by this very name (old names that it still has count)."""
    return token in _data()["types"]


def taggable(token: str) -> Shape | None:
    """How the type takes tags: as a map, as a list of keys and values, or not at all (unknown types too)."""
    shape = _data()["types"].get(token, NO_TAGS)
    return None if shape == NO_TAGS else cast(Shape, shape)


def renamed(token: str) -> str | None:
    """The present name of a type that was renamed; None for one that was not."""
    found = _data()["renamed"].get(token)
    return None if found is None else str(found)


def former(token: str) -> tuple[str, ...]:
    """Former names of a type under which pulumi_aws still makes resources."""
    return tuple(old for old, new in _data()["renamed"].items() if new == token and exists(old))


def besides(token: str) -> tuple[str, ...]:
    """Other inputs of the type that have to do with tags, in camel case (`tagSpecifications`)."""
    return tuple(_data()["besides"].get(token, ()))


def single_tag_types() -> frozenset[str]:
    """Types whose resources are one tag of another resource each, with `key` and `value`."""
    return frozenset(_data()["single"])


@cache
def taggable_types() -> frozenset[str]:
    """All types that carry tags."""
    return frozenset(token for token in _data()["types"] if taggable(token) is not None)
