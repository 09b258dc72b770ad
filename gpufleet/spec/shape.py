"""What the models say about a field path: its model, its choices, whether it is a list."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gpufleet.spec.fields import PATTERNS
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


def is_needed(root: type[BaseModel], path: FieldPath) -> bool:
    """Whether a model cannot be without the field at `path`; entries of lists and mappings can go."""
    model = type_at(root, path[:-1])
    info = _fields_by_name(model).get(str(path[-1])) if is_model(model) else None
    return info is not None and info.is_required()


def sample(root: type[BaseModel], path: FieldPath) -> Any:
    """A value that the field at `path` takes, as the reader hands values over: text, lists, mappings.

    The field's own example, where it has one.
    """
    kind: Any = root
    given: Any = None
    for part in path:
        plain = bare(kind)
        if is_model(plain):
            info = _fields_by_name(plain).get(str(part))
            kind = _annotated(info) if info is not None else str
            given = info.examples[0] if info is not None and info.examples else None
        else:
            arguments = get_args(plain)
            kind = arguments[1 if get_origin(plain) is dict else 0] if arguments else str
            given = next(iter(given.values() if isinstance(given, dict) else given or ()), None)
    return _sample(kind) if given is None else _texts(given)


def other_sample(root: type[BaseModel], path: FieldPath) -> str | None:
    """Another value of a choice or a number than `sample` gives; None for fields of other kinds."""
    kind = bare(type_at(root, path))
    if known := choices(kind):
        return known[-1] if len(known) > 1 else None
    first = sample(root, path)
    return str(float(first) + 0.5) if kind is float else str(int(first) + 1) if kind is int else None


def _texts(value: Any) -> Any:
    """An example as the reader would hand it over."""
    if isinstance(value, dict):
        return {key: _texts(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_texts(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _sample(kind: Any) -> Any:
    plain = bare(kind)
    if is_model(plain):
        chosen = getattr(plain, "exactly_one_of", ())[:1]
        return {
            name: sample(plain, (name,))
            for name, info in _fields_by_name(plain).items()
            if info.is_required() or name in chosen
        }
    if get_origin(plain) is tuple:
        return [_sample(get_args(plain)[0])]
    if get_origin(plain) is dict:
        return {}
    if known := choices(plain):
        return known[0]
    if examples := getattr(plain, "examples", None):
        return str(examples[0])
    constraints = list(_constraints(kind))
    least = next((each.ge for each in constraints if getattr(each, "ge", None) is not None), 1)
    if plain in (int, float):
        return str(max(least, 1))
    if plain is bool:
        return "true"
    if plain is dt.date:
        return "2099-12-31"
    pattern = next((each.pattern for each in constraints if getattr(each, "pattern", None) is not None), "")
    return PATTERNS.get(pattern, "").partition(", such as ")[2].strip("'") or "text"


def _fields_by_name(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {info.alias or name: info for name, info in model.model_fields.items()}


def _annotated(info: FieldInfo) -> Any:
    return Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation


def _constraints(kind: Any) -> Iterator[Any]:
    """What `Annotated` says of a type, on all levels down to the bare one."""
    if get_origin(kind) is Annotated:
        inner, *constraints = get_args(kind)
        for each in constraints:
            yield each
            yield from getattr(each, "metadata", ())
        yield from _constraints(inner)
    elif get_origin(kind) in (Union, UnionType):
        for part in get_args(kind):
            yield from _constraints(part)
