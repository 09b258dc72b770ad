"""Which files of a change are data, and which are code that judges it.

Data is what a fleet says: YAML files and host keys below stacks/. Everything else that a preview, a rule, a
price or a workflow may read is code, unless it is known not to be: a file of an unknown kind is code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

DATA = "stacks/"
_NEUTRAL = ("docs/", "tests/", "ansible/", "ci-templates/")
"""Folders that no preview and no rule reads."""
_NEUTRAL_FILES = re.compile(r"[A-Za-z0-9_-]+\.md|LICENSE|\.gitignore|Makefile")
_OF_REPOSITORY = re.compile(
    r"\.github/|\.gitlab/|\.gitlab-ci\.yml$|\.gitattributes$|(?:.*/)?\.gitmodules$|(?:docs/)?CODEOWNERS$"
)
"""Files at the top of a repository that judge the checkouts in it."""

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_SUFFIXES = (".yaml", ".yml")
_NAMES = ("known_hosts",)
_ABSENT, _FILE = "000000", "100644"


class FileChange(Struct, frozen=True):
    """A file that differs, by its path from the top of the repository and git's modes on both sides.

    A mode is `000000` where the file does not exist; `blob` is git's name of its content after the change,
    empty if it is in the work tree only.
    """

    path: str
    before: str
    after: str
    blob: str = ""


class JudgedChanges(Struct, frozen=True):
    """The files of a change that concern the checkout; paths are from the top of the repository."""

    data: tuple[FileChange, ...]
    code: tuple[FileChange, ...]


def sort_out(changes: Iterable[FileChange], prefix: str) -> JudgedChanges:
    """Return data and code of the checkout below `prefix` (empty, or with a slash at the end)."""
    data: list[FileChange] = []
    code: list[FileChange] = []
    for each in sorted(changes, key=lambda one: one.path):
        inside = each.path.removeprefix(prefix) if each.path.startswith(prefix) else None
        if inside is not None and is_data(each, inside):
            data.append(each)
        elif (inside is not None and not _is_neutral(inside)) or _OF_REPOSITORY.match(each.path):
            code.append(each)
    return JudgedChanges(_without_twins(data, code), tuple(code))


def is_data(change: FileChange, inside: str) -> bool:
    """Return whether a file is data on both sides: a plain file, no link, program or submodule."""
    if not inside.startswith(DATA) or not {change.before, change.after} <= {_ABSENT, _FILE}:
        return False
    parts = inside.split("/")
    named = parts[-1].endswith(_SUFFIXES) or parts[-1] in _NAMES
    return named and all(_PART.fullmatch(part) for part in parts)


def _is_neutral(inside: str) -> bool:
    return inside.startswith(_NEUTRAL) or _NEUTRAL_FILES.fullmatch(inside) is not None


def _without_twins(data: list[FileChange], code: list[FileChange]) -> tuple[FileChange, ...]:
    """Return the files without those whose names differ only in case: on some disks both are one file."""
    seen: dict[str, FileChange] = {}
    twins: set[str] = set()
    for each in data:
        if each.after != _ABSENT and seen.setdefault(each.path.casefold(), each) is not each:
            twins.add(each.path.casefold())
    code += [each for each in data if each.path.casefold() in twins]
    return tuple(each for each in data if each.path.casefold() not in twins)
