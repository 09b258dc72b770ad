"""The file of `--html`: checked before the work, and never another file of the user."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from gpufleet.errors import InputError

_MARK = '<meta name="generator" content="gpufleet">'
_HEAD = 4096

HtmlFile = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Also write a page to this file."),
]


def require_own_page(path: Path) -> None:
    """Raise InputError early for a path that is not writable or a file that is not a report."""
    remedy = "use a new file or an earlier report"
    try:
        if path.is_dir():
            raise InputError(f"--html {path} is a folder", remedy="use a file in it")
        if path.exists() and not (path.is_file() and _is_report(path)):
            raise InputError(f"--html {path} exists and is not a report of gpufleet", remedy=remedy)
        folder = next(each for each in path.absolute().parents if each.exists())
    except (OSError, ValueError) as error:
        raise InputError(f"--html {str(path)[:200]!r} is not a valid path: {error}", remedy=remedy) from None
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"--html {path}: {folder} is not a writable folder", remedy=remedy)


def _is_report(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(_HEAD).decode("utf-8", "replace")
    return not head or _MARK in head
