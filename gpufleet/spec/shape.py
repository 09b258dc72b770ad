"""What the models say about a field path: its model, its choices, whether it is a list."""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from gpufleet.spec.paths import FieldPath


@cache
def fields_of(model: type[BaseModel]) -> dict[str, Any]:
    """The fields of a model by the name that the fleet file uses, with their bare types."""
    return {info.alias or name: bare(info.annotation) for name, info in model.model_fields.items()}


def bare(kind: Any) -> Any:
    """A type without `Annotated` and without `| None`."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        rest = [part for part in get_args(kind) if part is not type(None)]
        return bare(rest[0]) if len(rest) == 1 else kind
    return kind


def type_at(root: type[BaseModel], path: FieldPath) -> Any:
    """The bare type of the field at `path` below `root`, or None where the models have no such field."""
    kind: Any = root
    for part in path:
        if is_model(kind):
            kind = fields_of(kind).get(str(part))
        elif get_origin(kind) in (tuple, dict):
            arguments = get_args(kind)
            kind = bare(arguments[1] if get_origin(kind) is dict else arguments[0])
        else:
            return None
    return kind


def is_model(kind: Any) -> bool:
    """Whether a bare type is one of the fleet file's models."""
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def choices(kind: Any) -> tuple[str, ...]:
    """The texts that a field of this bare type may hold, if it is a choice."""
    return tuple(str(choice) for choice in get_args(kind)) if get_origin(kind) is Literal else ()
