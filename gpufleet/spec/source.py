"""Where each value of a fleet file came from: field paths to file and line."""

from __future__ import annotations

from typing import Any

from gpufleet.findings import Finding, Severity
from gpufleet.spec.nodes import Entry, Node
from gpufleet.spec.paths import FieldPath, field_path, parse_path


class SourceMap:
    """The tree that a fleet was read from, after `extends:`; answers where a value came from.

    A path may be given as text or as its parts. Where it does not exist in the file (a default, a
    missing field), its nearest ancestor answers.
    """

    def __init__(self, root: Entry) -> None:
        self._root = root

    @property
    def file(self) -> str:
        """The fleet file itself, as findings call it."""
        return self._root.file

    def at(self, path: str | FieldPath) -> tuple[str, int]:
        """File and line of the field at `path`."""
        entry, _ = self._find(path)
        return entry.file, entry.line

    def has(self, path: str | FieldPath) -> bool:
        """Whether the field is written in the file."""
        return self._find(path)[1]

    def value(self, path: str | FieldPath) -> Any:
        """What the user wrote: text, list, dict, or None where nothing is written."""
        entry, found = self._find(path)
        return entry.node.plain() if found else None

    def finding(
        self,
        path: str | FieldPath,
        *,
        rule: str,
        message: str,
        remedy: str,
        severity: Severity = "error",
        value: Any = None,
    ) -> Finding:
        """A finding about the field at `path`; `value` overrides what the user wrote there."""
        entry, found = self._find(path)
        if value is None and found:
            value = entry.node.plain()
        return Finding(
            file=entry.file,
            line=entry.line,
            field=path if isinstance(path, str) else field_path(path),
            value=value,
            rule=rule,
            message=message,
            remedy=remedy,
            severity=severity,
        )

    def with_items(self, name: str, other: SourceMap) -> SourceMap:
        """This map with the items of the other one's list `name` after its own, each in its own file."""
        fields = self._root.node.value
        if not isinstance(fields, dict):
            return self
        lists = [tree.get(name) for tree in (fields, other._root.node.value) if isinstance(tree, dict)]
        items = [
            item
            for each in lists
            if each is not None and isinstance(each.node.value, list)
            for item in each.node.value
        ]
        place = next((each for each in lists if each is not None), self._root)
        merged = {**fields, name: Entry(place.file, place.line, Node(items))}
        return SourceMap(Entry(self._root.file, self._root.line, Node(merged)))

    def _find(self, path: str | FieldPath) -> tuple[Entry, bool]:
        """The entry at `path` and True, or its nearest ancestor and False."""
        entry = self._root
        for part in parse_path(path) if isinstance(path, str) else path:
            value = entry.node.value
            child: Entry | None = None
            if isinstance(value, dict):
                child = value.get(part) if isinstance(part, str) else None
            elif isinstance(value, list) and isinstance(part, int) and 0 <= part < len(value):
                child = value[part]
            if child is None:
                return entry, False
            entry = child
        return entry, True
