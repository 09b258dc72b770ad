"""docs/reference/fleet_file.md, generated from the models and the table of changes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any, get_args, get_origin

import yaml
from annotated_types import Ge, Le
from pydantic_core import PydanticUndefined

from gpufleet.changes.fields import KEY, Field, fleet_fields
from gpufleet.changes.reference import effect
from gpufleet.changes.table import CLOUD, affects_costs_only, is_rack
from gpufleet.spec.fields import PATTERNS
from gpufleet.spec.parsing import Quantity
from gpufleet.spec.shape import bare, choices, is_model

_HEADER = """# The fleet file

Every field of `stacks/<env>/fleet.yaml`: its type, unit and default, an example, and the effect of changing
it on a running fleet. `[]` stands for an item of a list, `<name>` for a key that you choose. *required*
fields must be set if their part of the file is. Quantities have their unit (`4800 GiB`); the unit of a bare
number is in parentheses.

- `extends: ../base.yaml`, at the top, takes everything from one other file: mappings merge, sites merge by
  `site`, node groups, storage and teams by `name`, other lists are replaced, and `null` removes a value.
- Changes: **rolling** replaces nodes one after another, **replacement** deletes what work or data depends on
  and creates it again; a Slurm site's effect is behind a slash. [What a change does](changes.md) states who
  is affected, and which option `up` needs. `gpufleet configure` applies fields of racks to the hosts; in the
  cloud their cost changes the limit of the AWS budget only.
- `gpufleet schema` prints the same as a JSON schema, for completion and checks in an editor.
- In addition, rules check several fields together (`gpufleet validate`) and resources ([rules](rules.md)).

This page is written by `make docs`; a test keeps it current.
"""
_COLUMNS = "| field | what it is | type | unit | default | example | change |\n|---|---|---|---|---|---|---|"
_UNIT = re.compile(r"a (?:whole )?number (?:of|and)(?: one of)? ([^(]*[^( ])")


def fleet_file_reference() -> str:
    """Return the page as Markdown: a table for each mapping of the fleet file."""
    parts: dict[str, list[Field]] = {}
    for each in fleet_fields():
        parts.setdefault(_parent(each.path), []).append(each)
    text = [_HEADER]
    for part, members in parts.items():
        about = re.split(r"\n\s*\n", (members[0].model.__doc__ or "").strip())[0]
        text += [f"## `{part}`\n" if part else "## The top level\n", " ".join(about.split()) + "\n", _COLUMNS]
        text += [_row(each, linked=each.path in parts) for each in members]
        text += [""]
    return "\n".join(text).rstrip("\n") + "\n"


def example_of(field: Field) -> Any:
    """Return a valid value of the field: its first example, or one of its type; None without one."""
    if field.info.examples:
        return field.info.examples[0]
    one = _of_type(inner_type(field))
    many = get_origin(bare(field.info.annotation))
    return {"name": one} if many is dict and one else [one] if many is tuple and one else one


def unit_of(field: Field) -> str:
    """Return the unit to write, or in parentheses that of a bare number; empty without a unit."""
    kind = inner_type(field)
    if isinstance(kind, type) and issubclass(kind, Quantity):
        written = _UNIT.match(kind.accepted)
        return written[1] if written else "%" if "'%'" in kind.accepted else ""
    for each in (field.info, *_metadata(field.info.annotation)):
        extra = getattr(each, "json_schema_extra", None)
        if isinstance(extra, dict) and "unit" in extra:
            return f"({extra['unit']})"
    return ""


def is_nested(field: Field) -> bool:
    """Return whether the field contains one or several mappings with their own table."""
    return is_model(inner_type(field))


def inner_type(field: Field) -> Any:
    """Return the bare type of a field, or of the items of a list or the values of a mapping."""
    kind = bare(field.info.annotation)
    if get_origin(kind) in (tuple, dict):
        return bare(get_args(kind)[1 if get_origin(kind) is dict else 0])
    return kind


def _metadata(annotation: Any) -> Iterator[Any]:
    """Yield the annotations of a type, or of a part of it, such as one of a union."""
    for inner in (annotation, *get_args(annotation)):
        for each in getattr(inner, "__metadata__", ()):
            yield each
            yield from getattr(each, "metadata", ())


def _of_type(kind: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, Quantity):
        return kind.examples[0]
    if kind is bool:
        return True
    known = choices(kind)
    return known[0] if known else None


def _parent(path: str) -> str:
    return path.removesuffix(f".{KEY}").rpartition(".")[0]


def _row(field: Field, *, linked: bool) -> str:
    parent = _parent(field.path)
    name = f"`{field.path.removeprefix(f'{parent}.' if parent else '')}`"
    anchor = re.sub(r"[^a-z0-9_-]", "", field.path.lower())
    cells = (
        f"[{name}](#{anchor})" if linked else name,
        field.description,
        _type(field),
        unit_of(field),
        _default(field),
        "" if is_nested(field) else f"`{_yaml(example_of(field))}`",
        _change(field),
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _type(field: Field) -> str:
    kind = bare(field.info.annotation)
    if get_origin(kind) is tuple:
        return "list of mappings" if is_nested(field) else f"list; {_scalar(get_args(kind)[0], ())}"
    if get_origin(kind) is dict:
        return "mapping of mappings" if is_nested(field) else f"mapping; {_scalar(get_args(kind)[1], ())}"
    return "mapping" if is_nested(field) else _scalar(field.info.annotation, tuple(field.info.metadata))


def _scalar(annotated: Any, metadata: tuple[Any, ...]) -> str:
    """Describe a type: what it is, then its bounds or its form."""
    kind = bare(annotated)
    metadata += tuple(_metadata(annotated))
    if isinstance(kind, type) and issubclass(kind, Quantity):
        return kind.noun.removeprefix("an ").removeprefix("a ")
    known = choices(kind)
    if known:
        return " or ".join(f"`{each}`" for each in known)
    words = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`"}.get(kind, "")
    word = words or {"date": "date", "Any": "any value"}.get(getattr(kind, "__name__", ""), str(kind))
    return word + _bounds(metadata)


def _bounds(metadata: tuple[Any, ...]) -> str:
    low: Any = next((each.ge for each in metadata if isinstance(each, Ge)), None)
    high: Any = next((each.le for each in metadata if isinstance(each, Le)), None)
    if low is not None and high is not None:
        return f", {low:,} to {high:,}"
    if low is not None:
        return f", {low:,} or more"
    found = (PATTERNS.get(str(getattr(each, "pattern", ""))) for each in metadata)
    return next((f": {each.partition(', such as ')[0]}" for each in found if each), "")


def _default(field: Field) -> str:
    info = field.info
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=True, validated_data={})
    if value is None or value is PydanticUndefined or value in ((), {}, "") or is_nested(field):
        return ""
    return f"`{_yaml(value)}`"


class _Dumper(yaml.SafeDumper):
    """All scalars are text to the reader: a number or a date needs no quotes."""


_Dumper.yaml_implicit_resolvers = {}


def _yaml(value: Any) -> str:
    text = yaml.dump(_texts(value), Dumper=_Dumper, default_flow_style=True, width=10_000, sort_keys=False)
    return str(text).removesuffix("\n").removesuffix("\n...")


def _texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _texts(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_texts(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _change(field: Field) -> str:
    if field.group:
        return ""
    if field.only:
        return "never: it has only one value"
    if affects_costs_only(field.path):
        return "costs only"
    if is_rack(field.path):
        return "`configure`"
    return "; ".join(f"{change.how}: {effect(change)}" for change in CLOUD.get(field.path, ()))


if __name__ == "__main__":
    sys.stdout.write(fleet_file_reference())
