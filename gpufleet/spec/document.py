"""A fleet file from disk to a tree: what is checked of the bytes before anything parses them."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from gpufleet.containment import read_contained, repository_of
from gpufleet.errors import SpecError
from gpufleet.findings import Finding
from gpufleet.spec.nodes import Entry, Unreadable, compose
from gpufleet.spec.syntax import line_of

LARGEST_BYTES = 1024 * 1024
MOST_TABS_SHOWN = 20

_TAB_INDENT = re.compile(r"^ *\t", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")


def read_document(path: Path, shown: str, *, within: Path | None = None) -> tuple[Entry, list[Finding]]:
    """The tree of the file at `path`, which findings call `shown`, with findings that hide nothing.

    The file lies below the folder `within`, by default its repository. Raises `InputError` when there is
    no such regular file there and `SpecError` when it cannot be read as one YAML mapping of at most 1 MiB.
    """
    text = _text(path, shown, within or repository_of(path))
    tabs = [_line(text, match.start()) for match in islice(_TAB_INDENT.finditer(text), MOST_TABS_SHOWN)]
    if tabs:
        raise SpecError([_tab(text, shown, line) for line in tabs])
    try:
        root, findings = compose(text, shown)
    except Unreadable as unreadable:
        raise SpecError([unreadable.finding]) from None
    if root is None or root.node.value is None:
        raise SpecError([_whole(shown, "", "file-empty", "the file is empty", _START)])
    if not isinstance(root.node.value, dict):
        kind = "a list" if isinstance(root.node.value, list) else "a single value"
        value = line_of(text, root.line)
        raise SpecError(
            [
                _whole(
                    shown,
                    value,
                    "not-a-mapping",
                    f"the file holds {kind}; a fleet file holds named fields",
                    _START,
                )
            ]
        )
    return root, findings


_START = "start with 'apiVersion: gpufleet/v1', or let `gpufleet init` write one"


def _text(path: Path, shown: str, within: Path) -> str:
    data = read_contained(path, shown, within=within, most=LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise SpecError([_too_large(shown, max(len(data), path.stat().st_size))])
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SpecError([_whole(shown, "UTF-16", "file-encoding", "the file is UTF-16", _UTF8)])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        bad = f"byte 0x{data[error.start]:02x}"
        raise SpecError(
            [
                _whole(
                    shown, bad, "file-encoding", f"the file is not UTF-8 ({bad} on line {line})", _UTF8, line
                )
            ]
        ) from None
    if control := _CONTROL.search(text):
        line = _line(text, control.start())
        bad = f"U+{ord(control[0]):04X}"
        message = f"the file holds the control character {bad}"
        raise SpecError(
            [_whole(shown, bad, "file-encoding", message, "remove it; a fleet file is text", line)]
        )
    return text


_UTF8 = "save it as UTF-8"


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _whole(shown: str, value: str, rule: str, message: str, remedy: str, line: int = 1) -> Finding:
    return Finding(file=shown, line=line, field="", value=value, rule=rule, message=message, remedy=remedy)


def _too_large(shown: str, size: int) -> Finding:
    return _whole(
        shown,
        f"{size} bytes",
        "file-too-large",
        f"the file has {size:,} bytes; the limit is {LARGEST_BYTES:,} (1 MiB)",
        "is this a fleet file? If it is, split the fleet into environments",
    )


def _tab(text: str, shown: str, line: int) -> Finding:
    return _whole(
        shown,
        line_of(text, line),
        "yaml-tab",
        "a tab is used for indentation",
        "use spaces (two a level)",
        line,
    )
