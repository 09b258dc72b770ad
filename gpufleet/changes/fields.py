"""Every field of the fleet file by its path, from the models.

A path is written as in findings, with `[]` for an item of a list and `<name>` for a key that the user
chooses: `cloud[].node_groups[].labels.<name>`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from msgspec import Struct
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gpufleet.spec.models import FleetSpec
from gpufleet.spec.shape import bare, choices, fields_of, is_model

KEY = "<name>"


class Field(Struct, frozen=True):
    """One field. `group`: it is a mapping whose fields have their own entries."""

    path: str
    description: str
    info: FieldInfo
    model: type[BaseModel]
    """The model that it is a field of."""

    group: bool = False
    only: str = ""
    """The only value that it can have, if there is just one: it can never change."""


def fleet_fields() -> tuple[Field, ...]:
    """Return all fields of a fleet file, in the order of the models."""
    return tuple(_fields(FleetSpec, ""))


def _fields(model: type[BaseModel], prefix: str) -> Iterator[Field]:
    by_name = {info.alias or name: info for name, info in model.model_fields.items()}
    chosen = getattr(model, "exactly_one_of", ())
    for name, kind in fields_of(model).items():
        path = f"{prefix}.{name}" if prefix else name
        about = by_name[name]
        if is_model(kind):
            yield Field(path, about.description or "", about, model, group=name not in chosen)
            yield from _fields(kind, path)
            continue
        item = _item(kind)
        if get_origin(kind) is dict:
            path = f"{path}.{KEY}"
        elif item is not None:
            path = f"{path}[]"
        known = choices(kind)
        yield Field(path, about.description or "", about, model, only=known[0] if len(known) == 1 else "")
        if item is not None:
            yield from _fields(item, path)


def _item(kind: Any) -> type[BaseModel] | None:
    """Return the model in a list or mapping, if it contains one."""
    arguments = get_args(kind)
    if get_origin(kind) not in (tuple, dict) or not arguments:
        return None
    inner = bare(arguments[1] if get_origin(kind) is dict else arguments[0])
    return inner if is_model(inner) else None
