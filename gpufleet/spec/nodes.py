"""YAML text to a tree of plain nodes that know their file and line.

Scalars stay text: the model's field decides whether `1.30` is a version or a number and whether
`no` is a word, so YAML's guesses (the Norway problem, octal numbers, dates) cannot happen. Only an
empty plain scalar, `~` or `null` is None.

The events come from PyYAML, whose libyaml parser reads a thousand lines in a few milliseconds; the
tree is built here because no YAML library reports duplicate keys with both lines, bounds what
aliases expand to, or limits the depth before it recurses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from gpufleet.findings import Finding
from gpufleet.spec.paths import field_path
from gpufleet.spec.syntax import line_of, syntax_finding

MOST_VALUES = 100_000
DEEPEST = 40

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN_TAGS = {
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map", "timestamp")
}
_NULLS = {"", "~", "null", "Null", "NULL"}


class Entry(NamedTuple):
    """A node where it stands: a mapping's entry is placed at its key, a list item at its start."""

    file: str
    line: int
    node: Node


@dataclass(slots=True, eq=False)
class Node:
    """A scalar (text or None), a mapping or a list. `size` counts values, aliases expanded."""

    value: str | dict[str, Entry] | list[Entry] | None
    size: int = 1

    def plain(self) -> Any:
        """The node as dicts, lists, text and None. The size was bounded when it was composed."""
        if isinstance(self.value, dict):
            return {key: entry.node.plain() for key, entry in self.value.items()}
        if isinstance(self.value, list):
            return [entry.node.plain() for entry in self.value]
        return self.value


class Unreadable(Exception):  # noqa: N818 - not an error of the program, and never leaves the loader
    """The document cannot be read further; carries the finding that says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


@dataclass(slots=True)
class _Frame:
    node: Node
    line: int
    anchor: str | None
    key: str | None = None
    key_line: int = 0
    has_key: bool = False
    merge: bool = False
    merges: list[tuple[int, Node]] = field(default_factory=list)


def compose(text: str, file: str) -> tuple[Entry | None, list[Finding]]:
    """The one document of `text` as a tree, with the findings that do not hide the rest.

    None means that the document is empty. Raises `Unreadable` for text that is not YAML, for more
    than one document, for more than `MOST_VALUES` values and for nesting beyond `DEEPEST`.
    """
    composer = _Composer(file, text)
    try:
        for event in _events(text):
            composer.take(event)
    except yaml.YAMLError as error:
        raise Unreadable(syntax_finding(error, text, file)) from None
    return composer.root, composer.findings


def _events(text: str) -> Iterator[Any]:
    yield from yaml.parse(text, Loader=_LOADER)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


class _Composer:
    """Builds the tree from parser events, iteratively: deep input cannot exhaust the stack."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self.root: Entry | None = None
        self.findings: list[Finding] = []
        self.documents = 0
        self.merged = 0
        self.anchors: dict[str, Node] = {}
        self.stack: list[_Frame] = []

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            line = _line(event)
            plain_null = not event.style and event.tag is None and event.value in _NULLS
            self.check_tag(event, line)
            frame = self.stack[-1] if self.stack else None
            if frame is not None and isinstance(frame.node.value, dict) and not frame.has_key:
                merge = not event.style and event.value == "<<"
                frame.key, frame.key_line, frame.has_key, frame.merge = event.value, line, True, merge
                if event.anchor:
                    self.anchors[event.anchor] = Node(event.value)
                return
            node = Node(None if plain_null else event.value)
            if event.anchor:
                self.anchors[event.anchor] = node
            self.put(node, line)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self.open(event)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self.close()
        elif isinstance(event, yaml.AliasEvent):
            self.alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise self.fatal(
                    _line(event),
                    "yaml-documents",
                    "a fleet file is one document, and a second one starts here",
                    "remove the '---' line, or move what follows to a file of its own",
                )

    def open(self, event: Any) -> None:
        line = _line(event)
        if len(self.stack) >= DEEPEST:
            raise self.fatal(
                line,
                "yaml-nesting",
                f"values are nested more than {DEEPEST} levels deep",
                "a fleet file needs less than 12 levels; check the brackets and the indentation",
            )
        self.check_tag(event, line)
        self.refuse_key(line)
        mapping = isinstance(event, yaml.MappingStartEvent)
        self.stack.append(_Frame(Node({} if mapping else []), line, event.anchor))

    def close(self) -> None:
        frame = self.stack.pop()
        node = frame.node
        if isinstance(node.value, dict):
            # A merged mapping gives what the mapping itself does not say; the first named wins.
            for line, merged in frame.merges:
                self.merged += merged.size
                if self.merged > MOST_VALUES:
                    raise self.too_large(line, self.merged)
                for key, entry in self.mapping(merged, line).items():
                    node.value.setdefault(key, entry)
            node.size = 1 + sum(entry.node.size for entry in node.value.values())
        elif isinstance(node.value, list):
            node.size = 1 + sum(entry.node.size for entry in node.value)
        if node.size > MOST_VALUES:
            raise self.too_large(frame.line, node.size)
        if frame.anchor:
            self.anchors[frame.anchor] = node
        self.put(node, frame.line)

    def alias(self, event: Any) -> None:
        line = _line(event)
        self.refuse_key(line)
        node = self.anchors.get(event.anchor)
        if node is None:
            inside = any(frame.anchor == event.anchor for frame in self.stack)
            raise self.fatal(
                line,
                "yaml-alias",
                f"*{event.anchor} stands inside the value that it names"
                if inside
                else f"*{event.anchor} names no anchor above it",
                f"write &{event.anchor} at the value that is to be repeated, above this line",
            )
        self.put(node, line)

    def put(self, node: Node, line: int) -> None:
        """Place a finished node into the container that is open, or make it the root."""
        if not self.stack:
            self.root = Entry(self.file, line, node)
            return
        frame = self.stack[-1]
        if isinstance(frame.node.value, list):
            frame.node.value.append(Entry(self.file, line, node))
            return
        if not isinstance(frame.node.value, dict):
            return
        key = frame.key or ""
        if frame.merge:
            sources = [entry.node for entry in node.value] if isinstance(node.value, list) else [node]
            frame.merges += [(frame.key_line, source) for source in sources]
        elif key in frame.node.value:
            first = frame.node.value[key]
            self.findings.append(
                Finding(
                    file=self.file,
                    line=frame.key_line,
                    field=self.path(),
                    value=node.value if not isinstance(node.value, (dict, list)) else key,
                    rule="duplicate-key",
                    message=f"'{key}' is written twice, on line {first.line} and on line {frame.key_line}",
                    remedy=f"keep one of lines {first.line} and {frame.key_line}",
                )
            )
        else:
            frame.node.value[key] = Entry(self.file, frame.key_line, node)
        frame.has_key = frame.merge = False

    def path(self) -> str:
        """The field path of the value that is being placed."""
        return field_path(
            [len(f.node.value) if isinstance(f.node.value, list) else f.key or "" for f in self.stack]
        )

    def mapping(self, node: Node, line: int) -> dict[str, Entry]:
        if isinstance(node.value, dict):
            return node.value
        raise self.fatal(
            line, "yaml-merge", "'<<' merges a mapping, and this is none", "write '<<: *name' of a mapping"
        )

    def refuse_key(self, line: int) -> None:
        frame = self.stack[-1] if self.stack else None
        if frame is not None and isinstance(frame.node.value, dict) and not frame.has_key:
            raise self.fatal(line, "yaml-key", "a key has to be plain text", "write 'name: value'")

    def check_tag(self, event: Any, line: int) -> None:
        if event.tag is None or event.tag == "!" or event.tag in _PLAIN_TAGS:
            return
        self.findings.append(
            Finding(
                file=self.file,
                line=line,
                field="",
                value=event.tag,
                rule="yaml-tag",
                message=f"the tag '{event.tag}' is not accepted: a fleet file is plain data",
                remedy="remove the '!' tag",
            )
        )

    def too_large(self, line: int, size: int) -> Unreadable:
        return self.fatal(
            line,
            "yaml-size",
            f"what starts here expands to {size:,} values or more; the limit is {MOST_VALUES:,}",
            "use fewer aliases (*name), or split the fleet",
        )

    def fatal(self, line: int, rule: str, message: str, remedy: str) -> Unreadable:
        shown = line_of(self.text, line)
        return Unreadable(
            Finding(
                file=self.file, line=line, field="", value=shown, rule=rule, message=message, remedy=remedy
            )
        )
