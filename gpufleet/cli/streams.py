"""Standard streams that are closed, full or gone: nothing is lost in silence, and nothing else is harmed.

A process that is started with its output closed (`>&-`) gives the next file that it opens the number of
that output: what is printed would end up in a state or a lock.
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
    """Make the standard streams fit to write to; raises `InputError` where there is no standard output.

    Closed ones are replaced by /dev/null. Characters that the terminal's encoding lacks, and bytes of a
    file's name that are no text, are spelled out.
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
            "standard output is closed", remedy="leave out `>&-`; `> /dev/null` drops the output"
        )


def silence(stream: Any) -> None:
    """Send what is still written to `stream` nowhere, the flush at the end of the process included."""
    try:
        descriptor = stream.fileno()
    except (io.UnsupportedOperation, AttributeError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def lose(stream: Any, error: OSError) -> None:
    """Go on without `stream`. A reader that is gone (`| head`) has what it wants; any other fault counts."""
    silence(stream)
    if stream is sys.stdout and not isinstance(error, BrokenPipeError):
        _lost.append(error)


def finish() -> GpufleetError | None:
    """Write what is left in standard output; what kept it from being written, None if nothing did."""
    try:
        sys.stdout.flush()
    except OSError as error:
        lose(sys.stdout, error)
    if not _lost:
        return None
    return CloudError(
        f"standard output cannot be written: {_lost[0].strerror}",
        remedy="the command itself has ended; send its output elsewhere, or make room there",
    )
