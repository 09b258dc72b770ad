"""The text of the comment, from the file of `gpufleet check --markdown`.

The file may come from a job that ran the pull request's own code, so it is untrusted. It must be a regular
file of bounded size and start with the marker of the requested environment, and must have no effect on the
host when it is posted under our name (see `gpufleet.comment.lines`).
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from gpufleet.comment.lines import ContradictoryError, posted_lines
from gpufleet.comment_form import marker
from gpufleet.errors import InputError

MOST_BYTES = 4 * 1024 * 1024
"""Larger than any verdict; a larger file is rejected unread."""

MARKER = re.compile(r"<!-- gpufleet check ([A-Za-z0-9][A-Za-z0-9._-]*) -->")

_CUT = "\n\n_Cut here: the files of the run have the whole verdict._\n"


def verdict_body(environment: str, file: Path, *, most: int, run: str = "", commit: str = "") -> str:
    """Return the comment for an environment, at most `most` characters long.

    Without the file, it states that the check ended without a verdict, since an old comment must not stand
    for a new commit; so it does for a file that contradicts itself. Raises InputError for a file that does
    not start with the marker of this environment.
    """
    first = marker(environment)
    if not MARKER.fullmatch(first):
        raise InputError(
            f"{environment!r} is not an environment's name", remedy="write the name as in stacks/<name>"
        )
    footer = _footer(run, commit)
    text = _read(file)
    if text is None:
        return _none(environment, "The check ended without a verdict; see its log.", footer)
    head, _, rest = text.partition("\n")
    if head.strip() != first:
        raise InputError(
            f"{file} does not start with the line {first}",
            remedy=f"pass the file of `gpufleet check {environment} --markdown`",
        )
    try:
        lines = posted_lines(environment, rest.split("\n"))
    except ContradictoryError as error:
        return _none(environment, f"The file of the check is not a verdict: {error}.", footer)
    kept = _shortened("\n".join(lines), most - len(first) - len(footer) - 1)
    return f"{first}\n{kept}{footer}"


def _none(environment: str, why: str, footer: str) -> str:
    return f"{marker(environment)}\n### gpufleet check {environment}: no verdict\n\n{why}\n{footer}"


def _read(file: Path) -> str | None:
    """Return the file's text; None without a file. Links are not followed."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(
            f"{file}: {error.strerror}", remedy="pass a regular file; links are not followed"
        ) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"{file} is not a regular file", remedy="pass the file of the check")
    with os.fdopen(descriptor, "rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise InputError(f"{file} is larger than {MOST_BYTES} bytes", remedy="pass the file of the check")
    return content.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")


def _shortened(text: str, most: int) -> str:
    """Return the text, or its first lines with an open section closed."""
    if len(text) <= most:
        return text if text.endswith("\n") else f"{text}\n"
    room = most - len(_CUT) - 64
    kept = text[: max(room, 0)].rpartition("\n")[0]
    # Folded sections are not nested.
    opened = kept.count("\n<details>\n") > kept.count("\n</details>")
    closing = "\n\n</details>" if opened else ""
    return f"{kept}{closing}{_CUT}"


def _footer(run: str, commit: str) -> str:
    """Return the run and commit of the verdict, as the posting job reports them."""
    parts = [f"[run]({run})" if run else "", f"commit {commit[:12]}" if commit else ""]
    details = ", ".join(part for part in parts if part)
    return f"\n<sub>{details}</sub>\n" if details else ""
