"""Runs the machine's tools for racks; a failure contains their output."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpufleet.errors import CloudError

_SAID = 600


def run(
    command: Sequence[str | Path],
    *,
    what: str,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    cwd: Path | None = None,
    timeout_s: float = 600,
) -> str:
    """Return the standard output of `command`. `env` is added to the environment.

    Raises CloudError with `what` if it exits with another code than 0 or takes longer than `timeout_s`.
    """
    words = [str(word) for word in command]
    with subprocess.Popen(  # noqa: S603 - no shell, and only tools of TOOLS
        words,
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Messages are searched and shown: always in one language.
        env=os.environ | {"LC_ALL": "C.UTF-8"} | dict(env or {}),
        cwd=cwd,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(stdin, timeout_s)
        except BaseException as error:
            # With all processes that it has started.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise CloudError(f"{what}: {words[0]} did not end within {timeout_s:.0f} s") from None
            raise
    if process.returncode:
        output = " ".join((err or out).split())[-_SAID:] or "nothing"
        raise CloudError(f"{what}: {words[0]} ended with code {process.returncode}: {output}")
    return out
