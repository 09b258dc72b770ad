"""Handling of standard streams that are closed, full or disconnected.

If a process starts with a closed output (`>&-`), the next file that it opens gets that file descriptor:
output would be written into a state or lock file.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from gpufleet.errors import CloudError, GpufleetError, InputError

_NAMES = ("stdin", "stdout", "stderr")
_lost: list[OSError] = []


def prepare() -> None:
    """Prepare the standard streams. Raises `InputError` if standard output is closed.

    Other closed streams are replaced by /dev/null. Characters that the encoding does not have are escaped.
    """
    _lost.clear()
    closed = [number for number, name in enumerate(_NAMES) if getattr(sys, name) is None]
    for number in closed:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor != number:
            os.dup2(descriptor, number)
            os.close(descriptor)
        stream = open(number, "w" if number else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
        setattr(sys, _NAMES[number], stream)
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(errors="backslashreplace")
    if 1 in closed:
        raise InputError(
            "standard output is closed", remedy="remove `>&-`; use `> /dev/null` to drop the output"
        )


def silence(stream: Any) -> None:
    """Discard further output to `stream`, including the flush at exit."""
    try:
        descriptor = stream.fileno()
    except (io.UnsupportedOperation, AttributeError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def lose(stream: Any, error: OSError) -> None:
    """Continue without `stream`. A closed pipe (`| head`) is not an error, all other errors are."""
    silence(stream)
    if stream is sys.stdout and not isinstance(error, BrokenPipeError):
        _lost.append(error)


def finish() -> GpufleetError | None:
    """Flush standard output and return the error if it could not be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        lose(sys.stdout, error)
    if not _lost:
        return None
    return CloudError(
        f"standard output cannot be written: {_lost[0].strerror}",
        remedy="the command has finished; redirect its output, or free space",
    )
