"""`gpufleet` as a forked process of one that has imported it: imports are most of a start."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from gpufleet.engine.forks import prepare
from tests import warm_servers

IMPORTED = (
    *("gpufleet.cli.main", "gpufleet.cli.run", "gpufleet.cli.change_rules", "gpufleet.cli.check"),
    *("gpufleet.engine.embedded", "gpufleet.lab.aws.daemon", "gpufleet.verdict.check", "gpufleet.plan"),
    "tests.warm_servers",
)


def run(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Like subprocess.run for `command`, with text output and empty input."""
    server = prepare(env, IMPORTED)
    warm = {**env, warm_servers.VARIABLE: warm_servers.address_of(env)}
    process = server.start(command, warm, cwd) if server is not None else None
    if process is None:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    reported = ["", ""]
    readers = [
        threading.Thread(target=_read, args=(stream, reported, place), daemon=True)
        for place, stream in enumerate((process.stdout, process.stderr))
    ]
    for reader in readers:
        reader.start()
    deadline = time.monotonic() + timeout_s
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    for reader in readers:
        reader.join(max(0.0, deadline - time.monotonic()))
        if reader.is_alive():  # a process that it has started has its output
            raise subprocess.TimeoutExpired(command, timeout_s)
    return subprocess.CompletedProcess(list(command), code, *reported)


def _read(stream: IO[str] | None, reported: list[str], place: int) -> None:
    assert stream is not None
    with stream:
        reported[place] = stream.read()
