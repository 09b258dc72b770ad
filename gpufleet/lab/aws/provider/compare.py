"""Comparison of property values: equality, paths that differ, and inputs after drift."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import unquote

from msgspec import Struct

from gpufleet.lab.aws.provider.handler import Handler
from gpufleet.lab.aws.provider.wire import ARCHIVE, UNKNOWN, Props, contains_unknown

Kind = Literal["add", "delete", "update"]


class InputChange(Struct, frozen=True):
    """One difference: its path as Pulumi writes it, its dotted path, and its kind."""

    path: str
    dotted: str
    kind: Kind


def differences(handler: Handler, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[InputChange]:
    """Return every difference between two sets of inputs, except the engine's own keys."""
    return list(_diff(handler, old, new, "", ""))


def _diff(handler: Handler, old: Any, new: Any, path: str, dotted: str) -> Iterator[InputChange]:
    # Engines send nothing but the hash of an archive to compare.
    old, new = (
        item.get("hash") if isinstance(item, Mapping) and ARCHIVE in item else item for item in (old, new)
    )
    if isinstance(old, Mapping) and isinstance(new, Mapping) and dotted not in handler.documents:
        for key in sorted({*old, *new}):
            if key.startswith("__"):
                continue
            step = f"{path}.{key}" if path else key
            if path and not key.isidentifier():
                step = f'{path}["{key}"]'
            yield from _diff(handler, old.get(key), new.get(key), step, f"{dotted}.{key}" if dotted else key)
        return
    if same(handler, old, new, dotted):
        return
    if old is None:
        yield InputChange(path, dotted, "add")
    elif new is None:
        yield InputChange(path, dotted, "delete")
    elif isinstance(old, list) and isinstance(new, list):
        yield from _diff_lists(handler, old, new, path, dotted)
    else:
        yield InputChange(path, dotted, "update")


def _diff_lists(
    handler: Handler, old: list[Any], new: list[Any], path: str, dotted: str
) -> Iterator[InputChange]:
    if is_set(handler, old + new, dotted):
        kept = [_key(handler, item, dotted) for item in old]
        wanted = [_key(handler, item, dotted) for item in new]
        old = [item for item, key in zip(old, kept, strict=True) if key not in wanted]
        new = [item for item, key in zip(new, wanted, strict=True) if key not in kept]
    for index in range(max(len(old), len(new))):
        before = old[index] if index < len(old) else None
        after = new[index] if index < len(new) else None
        yield from _diff(handler, before, after, f"{path}[{index}]", dotted)


def same(handler: Handler, old: Any, new: Any, dotted: str) -> bool:
    """Return whether two values are the same to AWS. An unknown value never equals a known one."""
    if contains_unknown(old) or contains_unknown(new):
        return bool(old == new and old == UNKNOWN)
    return _key(handler, old, dotted) == _key(handler, new, dotted)


def is_set(handler: Handler, items: list[Any], dotted: str) -> bool:
    """Return whether the order of a list does not matter."""
    if any(isinstance(item, Mapping) for item in items):
        return dotted in handler.sets
    return dotted not in handler.ordered


def _key(handler: Handler, value: Any, dotted: str) -> str:
    """Return a text that is equal for equivalent values."""
    if value is None:
        return ""
    if dotted in handler.documents:
        return document_key(value)
    if isinstance(value, Mapping):
        fields = {
            key: _key(handler, item, f"{dotted}.{key}")
            for key, item in value.items()
            if item is not None and not key.startswith("__")
        }
        return json.dumps(fields, sort_keys=True)
    if isinstance(value, list):
        keys = [_key(handler, item, dotted) for item in value]
        return json.dumps(sorted(keys) if is_set(handler, value, dotted) else keys)
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def document_key(value: Any) -> str:
    """Return a key of a policy document's meaning: single values equal lists of one, lists are sets."""
    if isinstance(value, str):
        try:
            value = json.loads(unquote(value) if value.startswith("%7B") else value)
        except ValueError:
            return str(value)
    return json.dumps(_normal(value), sort_keys=True)


def _normal(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _normal(item) for key, item in value.items()}
    if isinstance(value, list):
        items = sorted((_normal(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
        return items[0] if len(items) == 1 else items
    return str(value).lower() if isinstance(value, bool) else value


def project(handler: Handler, declared: Any, actual: Any, dotted: str) -> Any:
    """Return the value of a declared input that would describe the existing one.

    Properties that the program does not set inside a block stay unset; a map (tags, labels) is used whole.
    """
    if same(handler, declared, actual, dotted):
        return declared
    if isinstance(declared, Mapping) and isinstance(actual, Mapping) and _is_block(handler, dotted):
        return {
            key: project(handler, item, actual.get(key), f"{dotted}.{key}") if key in actual else item
            for key, item in declared.items()
            if key not in actual or actual[key] is not None
        }
    if isinstance(declared, list) and isinstance(actual, list) and len(declared) == len(actual):
        aligned = _aligned(handler, declared, actual, dotted)
        return [project(handler, item, other, dotted) for item, other in zip(declared, aligned, strict=True)]
    return actual


def _is_block(handler: Handler, dotted: str) -> bool:
    """Return whether a path is a nested block (fixed properties), not a free map."""
    from gpufleet.lab.aws.provider import schema

    kind: Any = None
    properties: Mapping[str, Any] = handler.schema.outputs
    for step in dotted.split("."):
        kind = properties.get(step)
        while isinstance(kind, dict) and "array" in kind:
            kind = kind["array"]
        if not (isinstance(kind, dict) and "ref" in kind):
            return False
        properties = schema.struct(kind["ref"]).properties
    return kind is not None


def _aligned(handler: Handler, declared: list[Any], actual: list[Any], dotted: str) -> list[Any]:
    """Return `actual` in the order of `declared`, for sets: each declared item with its best match."""
    if not is_set(handler, declared + actual, dotted):
        return actual
    left = list(actual)
    result: list[Any] = [None] * len(declared)
    pending: list[int] = []
    for index, item in enumerate(declared):
        match = next((other for other in left if _covers(handler, item, other, dotted)), None)
        if match is None:
            pending.append(index)
        else:
            left.remove(match)
            result[index] = match
    for index in pending:
        result[index] = left.pop(0)
    return result


def _covers(handler: Handler, declared: Any, actual: Any, dotted: str) -> bool:
    if isinstance(declared, Mapping) and isinstance(actual, Mapping):
        return all(
            key.startswith("__") or same(handler, item, actual.get(key), f"{dotted}.{key}")
            for key, item in declared.items()
        )
    return same(handler, declared, actual, dotted)


def drifted_inputs(handler: Handler, declared: Props, before: Props, now: Props) -> Props:
    """Return the inputs that describe the existing resource.

    `declared` are the inputs of the state, `before` its outputs, `now` the outputs just read. Without
    declared inputs (an import) every input property with a value in AWS is used.
    """
    known = handler.schema.inputs.properties
    if not {key for key in declared if not key.startswith("__")}:
        return {key: value for key, value in now.items() if key in known and value not in (None, [], {}, "")}
    result = dict(declared)
    for key, value in declared.items():
        if key.startswith("__") or key not in now:
            continue
        if now[key] is None:
            del result[key]
        else:
            result[key] = project(handler, value, now[key], key)
    for key in known:
        if (
            key in declared
            or key in handler.computed
            or key == "region"
            or now.get(key) in (None, [], {}, "")
        ):
            continue
        if not same(handler, before.get(key), now[key], key):
            result[key] = now[key]
    return result
