"""Pydantic's errors as findings: the words are ours, with place, rule and remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gpufleet.findings import Finding
from gpufleet.spec.fields import PATTERNS, RESPELLED
from gpufleet.spec.paths import FieldPath, field_path
from gpufleet.spec.shape import choices, fields_of, is_model, sample, type_at
from gpufleet.spec.source import SourceMap

_WRONG_KIND = {
    "model_type",
    "model_attributes_type",
    "dict_type",
    "tuple_type",
    "list_type",
    "string_type",
    "whole_number",
    "decimal_number",
    "flag",
    "not_text",
    "literal_error",
}


def findings_of(error: ValidationError, source: SourceMap, root: type[BaseModel]) -> Iterator[Finding]:
    """Every error of a validation as a finding, in pydantic's order."""
    for detail in error.errors(include_url=False):
        # A list whose only items are wrong is not short as well.
        if detail["type"] != "too_short" or not detail["input"]:
            yield _finding(detail, source, root)


def _finding(detail: ErrorDetails, source: SourceMap, root: type[BaseModel]) -> Finding:
    path, kind, context = detail["loc"], detail["type"], detail.get("ctx", {})
    value = detail["input"]
    name = _named(path)
    if path[-1:] == ("[key]",) and get_origin(type_at(root, path[:-2])) is dict:
        return _bad_key(path[:-1], kind, value, context, source)
    entry = f"{name}: " if path and isinstance(path[-1], str) else ""
    expected = type_at(root, path)
    example = _flow(sample(root, path)) if expected is not None else "..."
    if kind == "extra_forbidden":
        return _unknown_field(path, source, root)
    if kind == "missing":
        return source.finding(
            path,
            rule="missing-field",
            message=f"'{name}' is missing{_place(path)}",
            remedy=f"add '{name}: {example}'",
        )
    if kind == "gpufleet":
        return source.finding(
            path,
            rule=str(context["rule"]),
            message=str(context["message"]),
            remedy=str(context["remedy"]),
            value=None if isinstance(value, (dict, list)) else value,
        )
    if value is None and kind in _WRONG_KIND:
        return source.finding(
            path,
            rule="empty-value",
            message=f"'{name}' has no value",
            remedy=f"write for example '{entry}{example}', or remove it",
        )
    if kind == "quantity":
        return source.finding(
            path,
            rule="bad-quantity",
            message=str(context["reason"]),
            remedy=str(context["remedy"]).replace(f"'{expected.examples[0]}'", f"'{example}'"),
        )
    if kind == "literal_error" and isinstance(value, str):
        return _choice(path, value, _open_choices(path, choices(expected), source, root), source)
    if kind in _WRONG_KIND:
        single = get_origin(expected) is tuple and isinstance(value, str) and len(value) < 60
        return source.finding(
            path,
            rule="wrong-type",
            message=f"'{name}' has to be {_noun(expected)}, and this is {_kind_of(value)}",
            remedy=f"write '{entry}[{value}]'" if single else f"write for example '{entry}{example}'",
        )
    message, remedy = _bound(kind, name, value, context)
    if path == ("environment",):
        remedy = "write the name of the file's folder"
    secret = isinstance(value, str) and _WITH_PASSWORD.match(value)
    return source.finding(
        path,
        rule=_BOUND_RULES.get(kind, "bad-value"),
        message=message,
        remedy=remedy,
        value="(an address with a password)" if secret else None,
    )


def _bad_key(path: FieldPath, kind: str, value: Any, context: dict[str, Any], source: SourceMap) -> Finding:
    """A name of the user's own choice in a mapping; its value is another matter."""
    name = f"the name '{str(value)[:40]}'"
    if kind == "gpufleet":
        message, remedy = str(context["message"]), str(context["remedy"])
    else:
        message, remedy = _bound(kind, name, value, context)
    return source.finding(
        path,
        rule=_BOUND_RULES.get(kind, "bad-text"),
        message=message,
        remedy=remedy.replace("write '", "name it '"),
        value=str(value),
    )


_WITH_PASSWORD = re.compile(r"[a-z]+://[^/]*@")

_BOUND_RULES = {
    "greater_than_equal": "out-of-bounds",
    "less_than_equal": "out-of-bounds",
    "greater_than": "out-of-bounds",
    "less_than": "out-of-bounds",
    "string_pattern_mismatch": "bad-text",
    "string_too_long": "too-long",
    "string_too_short": "too-short",
    "too_short": "empty-list",
    "too_long": "too-long",
}


def _respell(value: Any, pattern: str) -> str:
    """A spelling of `value` that the pattern takes, or nothing."""
    lower = str(value).casefold()
    for spelled in (lower, re.sub(r"[^a-z0-9]+", "-", lower).strip("-")):
        if spelled and pattern in RESPELLED and re.fullmatch(pattern, spelled):
            return spelled
    return ""


def _bound(kind: str, name: str, value: Any, context: dict[str, Any]) -> tuple[str, str]:
    match kind:
        case "greater_than_equal":
            return f"'{name}' is below {context['ge']}, the least allowed", f"write {context['ge']} or more"
        case "less_than_equal":
            return f"'{name}' is above {context['le']}, the most allowed", f"write {context['le']} or less"
        case "string_too_long":
            most = context["max_length"]
            return f"'{name}' is longer than {most} characters", f"write at most {most} characters"
        case "string_too_short":
            return f"'{name}' is empty", "write a value"
        case "too_short":
            return f"'{name}' is an empty list", f"name at least {context['min_length']}"
        case "too_long":
            return (
                f"'{name}' has more than {context['max_length']} entries",
                "split the fleet into environments",
            )
        case "string_pattern_mismatch":
            pattern = str(context["pattern"])
            words = PATTERNS.get(pattern, f"text that matches {pattern}")
            sort, _, example = words.partition(", such as ")
            spelled = _respell(value, pattern)
            remedy = f"write '{spelled}'" if spelled else f"write for example {example or 'a valid one'}"
            return f"'{name}' has to be {sort}", remedy
        case _:
            return f"'{name}' is not accepted here", "see `gpufleet schema` for what the field takes"


def _unknown_field(path: FieldPath, source: SourceMap, root: type[BaseModel]) -> Finding:
    model = type_at(root, path[:-1])
    known = list(fields_of(model)) if is_model(model) else []
    name = str(path[-1])
    near = get_close_matches(name.casefold(), known, n=1, cutoff=0.6)
    where = _place(path)
    listed = f"remove it; the fields{where} are {', '.join(known)}"
    remedy = f"did you mean '{near[0]}'?" if near else listed
    return source.finding(
        path,
        rule="unknown-field",
        message=f"'{name}' is no field{where or ' of a fleet file'}",
        remedy=remedy,
    )


def _open_choices(
    path: FieldPath, known: tuple[str, ...], source: SourceMap, root: type[BaseModel]
) -> tuple[str, ...]:
    """The choices that another field of the same model leaves."""
    narrowed = getattr(type_at(root, path[:-1]), "narrowed_by", {}).get(path[-1])
    if narrowed is None:
        return known
    other, left = narrowed
    written = source.value((*path[:-1], other))
    return left.get(written, known) if isinstance(written, str) else known


def _choice(path: FieldPath, value: str, known: Sequence[str], source: SourceMap) -> Finding:
    folded = {choice.casefold(): choice for choice in known}
    near = get_close_matches(value.casefold().replace("_", "-"), folded, n=1, cutoff=0.5)
    listed = " or ".join([", ".join(known[:-1]), known[-1]]) if len(known) > 1 else "".join(known)
    remedy = f"write {listed}"
    if near and len(known) > 1:
        remedy = f"did you mean '{folded[near[0]]}'? It takes {listed}"
    return source.finding(
        path,
        rule="unknown-choice",
        message=f"'{value[:40]}' is no choice for '{_named(path)}'",
        remedy=remedy,
    )


def _named(path: FieldPath) -> str:
    """How a message calls the field: by its name, with the index where it is a list's item."""
    if path and isinstance(path[-1], int):
        return field_path(path[-2:])
    return str(path[-1]) if path else "the file"


def _place(path: FieldPath) -> str:
    return f" in {field_path(path[:-1])}" if len(path) > 1 else ""


def _noun(kind: Any) -> str:
    if is_model(kind):
        return f"a mapping with {', '.join(list(fields_of(kind))[:4])}..."
    if get_origin(kind) is tuple:
        return "a list"
    if get_origin(kind) is dict:
        return "a mapping of names to values"
    if known := choices(kind):
        return f"one of {', '.join(known)}"
    if noun := getattr(kind, "noun", None):
        return str(noun)
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}.get(kind, "a value")


def _kind_of(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    return f"'{str(value)[:40]}'"


def _flow(value: Any) -> str:
    """A value as one line of YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in value.items()) + "}"
    return f"[{', '.join(map(_flow, value))}]" if isinstance(value, list) else str(value)
