"""What a task changes, as text: Ansible's several shapes of a diff made one."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

LONGEST_DIFF = 4000
"""Characters of one diff that are kept; a longer one is cut and says so."""


class Diff(Struct, frozen=True):
    """A change of one thing. `what` is a path or nothing, `text` a unified diff without headers."""

    what: str
    text: str


def task_diffs(result: Mapping[str, Any]) -> tuple[Diff, ...]:
    """The diffs in what a module returned, those of its loop's items included."""
    items = result.get("results")
    found = list(_diffs(result.get("diff"), _path(result)))
    for item in items if isinstance(items, list) else ():
        if isinstance(item, Mapping):
            found += _diffs(item.get("diff"), _path(item))
    return tuple(found)


def _path(result: Mapping[str, Any]) -> str:
    for key in ("dest", "path"):
        if isinstance(result.get(key), str):
            return str(result[key])
    return ""


def _diffs(raw: Any, path: str) -> Iterator[Diff]:
    for part in raw if isinstance(raw, list) else [raw]:
        if not isinstance(part, Mapping):
            continue
        text = _text(part)
        if text:
            header = str(part.get("after_header") or part.get("before_header") or "")
            # Ansible puts "(content)" or a temporary file's name behind the path.
            yield Diff(path or header.split(" (", 1)[0], _cut(text))


def _text(part: Mapping[str, Any]) -> str:
    if part.get("prepared"):
        return str(part["prepared"]).rstrip("\n")
    for key, words in (
        ("src_binary", "binary content"),
        ("dst_binary", "binary content"),
        ("src_larger", "too large to be compared"),
        ("dst_larger", "too large to be compared"),
    ):
        if part.get(key):
            return f"({words})"
    before, after = _lines(part.get("before")), _lines(part.get("after"))
    if before == after:
        return ""
    lines = difflib.unified_diff(before, after, lineterm="", n=1)
    return "\n".join(line for line in lines if not line.startswith(("---", "+++")))


def _lines(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return value.splitlines()
    return json.dumps(value, indent=1, sort_keys=True, default=str).splitlines()


def _cut(text: str) -> str:
    if len(text) <= LONGEST_DIFF:
        return text
    return f"{text[:LONGEST_DIFF]}\n({len(text) - LONGEST_DIFF} characters more)"
