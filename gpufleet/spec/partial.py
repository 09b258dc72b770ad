"""Partial checks of a fleet file with errors: the file without its invalid parts, or with valid values for
them.

A rule over several fields must also run if another part of the file is invalid, and must not report values
that are missing only for that reason. Therefore the file is checked with valid values instead of the invalid
ones, again with other values, and without them (an invalid required field removes its list entry). Findings
of the first check that another check confirms are reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_origin

from msgspec import Struct
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gpufleet.spec.models import FleetSpec
from gpufleet.spec.nodes import Entry, Node
from gpufleet.spec.paths import FieldPath
from gpufleet.spec.shape import is_needed, other_sample, sample, type_at
from gpufleet.spec.source import SourceMap

MOST_ROUNDS = 40
"""Repairs can reveal more errors, since a model is validated as a whole after its fields."""

_GONE = Node(None, 0)
"""Placeholder of a removed list item, so that the others keep their index."""

_CHANNEL = ("software", "channel")
_NO_CHANNEL = "1970.01"
"""Rather than another channel, whose lock the rest of the file does not fit."""

Path = tuple[str | int, ...]


class PartialFleet(Struct, frozen=True):
    """A fleet without errors in its fields; `source` has its lines, `broken` the file's paths of errors."""

    spec: FleetSpec
    source: SourceMap
    broken: frozenset[Path]
    tree: Entry

    def original(self, path: FieldPath) -> Path:
        """The path in the file of a path of `spec`: items that were taken out count again."""
        return _original(self.tree, path)


Way = Literal["fill", "fill otherwise", "drop"]


def partials(root: Entry) -> tuple[PartialFleet, ...]:
    """The file at `root` with its broken parts filled in, filled in otherwise, and without them.

    The first is what the others are compared with; empty if nothing is left to check.
    """
    ways: tuple[Way, ...] = ("fill", "fill otherwise", "drop")
    found = [_repaired(root, way) for way in ways]
    return tuple(each for each in found if each is not None) if found[0] is not None else ()


def _repaired(root: Entry, way: Way) -> PartialFleet | None:
    tree = _copy(root)
    broken: set[Path] = set()
    for _ in range(MOST_ROUNDS):
        compact = _compact(tree)
        try:
            spec = FleetSpec.model_validate(compact.node.plain(), by_alias=True, by_name=False)
        except ValidationError as error:
            places = [(_place(tree, detail), detail["type"]) for detail in error.errors(include_url=False)]
            for path, kind in places:
                if not path:
                    return None
                broken.add(path)
                _repair(tree, path, kind, way)
        else:
            return PartialFleet(spec, SourceMap(compact), frozenset(broken), tree)
    return None


def _place(tree: Entry, detail: ErrorDetails) -> Path:
    """Where an error is by the file's own numbers; that of a mapping's key is at its entry."""
    path: Sequence[str | int] = detail["loc"]
    if path[-1:] == ("[key]",) and get_origin(type_at(FleetSpec, path[:-2])) is dict:
        path = path[:-1]
    return _original(tree, path)


def _repair(tree: Entry, path: Path, kind: str, way: Way) -> None:
    if kind == "extra_forbidden":
        _drop(tree, path)
        return
    may_go = (path[:end] for end in range(len(path), 0, -1) if not is_needed(FleetSpec, path[:end]))
    other = other_sample(FleetSpec, path) if way == "fill otherwise" else None
    if other is not None:
        _put(tree, path, other)
    elif way != "fill" and (whole := next(may_go, None)) is not None:
        _drop(tree, whole)
    else:
        _put(tree, path, _NO_CHANNEL if path == _CHANNEL and way != "fill" else sample(FleetSpec, path))


def _copy(entry: Entry) -> Entry:
    value = entry.node.value
    if isinstance(value, dict):
        value = {key: _copy(each) for key, each in value.items()}
    elif isinstance(value, list):
        value = [_copy(each) for each in value]
    return Entry(entry.file, entry.line, Node(value, entry.node.size))


def _compact(entry: Entry) -> Entry:
    """The tree without what was taken out."""
    value = entry.node.value
    if isinstance(value, dict):
        value = {key: _compact(each) for key, each in value.items()}
    elif isinstance(value, list):
        value = [_compact(each) for each in value if each.node is not _GONE]
    return Entry(entry.file, entry.line, Node(value, entry.node.size))


def _original(tree: Entry, path: FieldPath) -> Path:
    found: list[str | int] = []
    entry: Entry | None = tree
    for part in path:
        value = entry.node.value if entry is not None else None
        if isinstance(value, list) and isinstance(part, int):
            left = [index for index, each in enumerate(value) if each.node is not _GONE]
            part = left[part] if part < len(left) else part
        found.append(part)
        entry = _child(entry, part) if entry is not None else None
    return tuple(found)


def _child(entry: Entry, part: str | int) -> Entry | None:
    value = entry.node.value
    if isinstance(value, dict) and isinstance(part, str):
        return value.get(part)
    if isinstance(value, list) and isinstance(part, int) and 0 <= part < len(value):
        return value[part]
    return None


def _parent(tree: Entry, path: Path) -> Entry | None:
    entry: Entry | None = tree
    for part in path[:-1]:
        entry = _child(entry, part) if entry is not None else None
    return entry


def _drop(tree: Entry, path: Path) -> None:
    parent, last = _parent(tree, path), path[-1]
    value = parent.node.value if parent is not None else None
    if isinstance(value, dict) and isinstance(last, str):
        value.pop(last, None)
    elif isinstance(value, list) and isinstance(last, int) and last < len(value):
        value[last] = Entry(value[last].file, value[last].line, _GONE)


def _put(tree: Entry, path: Path, value: Any) -> None:
    parent, last = _parent(tree, path), path[-1]
    inside = parent.node.value if parent is not None else None
    if parent is not None and isinstance(inside, dict) and isinstance(last, str):
        inside[last] = _entry(parent, value)
    elif parent is not None and isinstance(inside, list) and isinstance(last, int) and last < len(inside):
        inside[last] = _entry(inside[last], value)


def _entry(place: Entry, value: Any) -> Entry:
    if isinstance(value, dict):
        value = {key: _entry(place, each) for key, each in value.items()}
    elif isinstance(value, list):
        value = [_entry(place, each) for each in value]
    return Entry(place.file, place.line, Node(value))
