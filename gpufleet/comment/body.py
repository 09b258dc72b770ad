"""The text of the comment, from the file of `gpufleet check --markdown`.

The file comes from a job that ran the pull request's own code, so it is untrusted. It must be a regular file
of bounded size and start with the marker of the requested environment, and must have no effect on the host
when it is posted under our name.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from gpufleet.errors import InputError
from gpufleet.visible import visible

MOST_BYTES = 4 * 1024 * 1024
"""Larger than any verdict; a larger file is rejected unread."""

MARKER = re.compile(r"<!-- gpufleet check ([A-Za-z0-9][A-Za-z0-9._-]*) -->")

# GitLab runs `/approve` at the start of a line of a comment with the rights of its author, and so do bots on
# GitHub. A zero-width space makes it plain text, in a code block too.
_COMMAND = re.compile(r"^(\s*)/(?=[A-Za-z])", re.MULTILINE)
_MENTION = re.compile(r"(?<![\w`/.])@(?=[A-Za-z0-9])")
_ZERO_WIDTH = "\u200b"
_CUT = "\n\n_Cut here: the files of the run have the whole verdict._\n"


def marker(environment: str) -> str:
    """Return the hidden first line, which identifies the comment of an environment."""
    return f"<!-- gpufleet check {environment} -->"


def verdict_body(environment: str, file: Path, *, most: int, run: str = "", commit: str = "") -> str:
    """Return the comment for an environment, at most `most` characters long.

    Without the file, it states that the check ended without a verdict, since an old comment must not stand
    for a new commit. Raises InputError for a file that is not a verdict of this environment.
    """
    first = marker(environment)
    if not MARKER.fullmatch(first):
        raise InputError(
            f"{environment!r} is not an environment's name", remedy="write the name as in stacks/<name>"
        )
    footer = _footer(run, commit)
    text = _read(file)
    if text is None:
        return (
            f"{first}\n### gpufleet check: {environment}: no verdict\n\n"
            f"The check ended without a verdict; see its log.\n{footer}"
        )
    head, _, rest = text.partition("\n")
    if head.strip() != first:
        raise InputError(
            f"{file} does not start with the line {first}",
            remedy=f"pass the file of `gpufleet check {environment} --markdown`",
        )
    return f"{first}\n{_shortened(_neutralised(rest), most - len(first) - len(footer) - 1)}{footer}"


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


def _neutralised(text: str) -> str:
    """Neutralise what a host or a bot would execute, without changing how the text looks."""
    text = visible(text)
    text = _COMMAND.sub(rf"\1{_ZERO_WIDTH}/", text)
    return _MENTION.sub(f"@{_ZERO_WIDTH}", text)


def _shortened(text: str, most: int) -> str:
    """Return the text, or its first lines with their open blocks closed."""
    if len(text) <= most:
        return text if text.endswith("\n") else f"{text}\n"
    room = most - len(_CUT) - 64
    kept = text[: max(room, 0)].rpartition("\n")[0]
    closing = ""
    if len(re.findall(r"^\s*```", kept, re.MULTILINE)) % 2:
        closing += "\n```"
    # At most as many as the 64 characters above allow.
    opened = len(re.findall(r"<details\b", kept)) - kept.count("</details>")
    closing += "\n</details>" * max(0, min(opened, 4))
    return f"{kept}{closing}{_CUT}"


def _footer(run: str, commit: str) -> str:
    """Return the run and commit of the verdict, as the posting job reports them."""
    parts = [f"[run]({run})" if run else "", f"commit {commit[:12]}" if commit else ""]
    details = ", ".join(part for part in parts if part)
    return f"\n<sub>{details}</sub>\n" if details else ""
