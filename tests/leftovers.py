"""Processes that tests leave running on this machine: there must be none.

Processes started by tests inherit a mark in the environment. Processes with their own title (forks of one
that has imported gpufleet) hide it; their child processes do not. Hosts of racks do not have it: their
own tests look for them.
"""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

from gpufleet.racks.stragglers import marked_processes

MARK = "GPUFLEET_TEST_RUN"
# Some end by themselves when their client is gone: a sandbox's provider, a shared ssh connection.
_GRACE_S = 60.0


def mark() -> None:
    """Mark the processes that this process starts from here on."""
    os.environ[MARK] = secrets.token_hex(16)


def at_work(token: str) -> dict[int, str]:
    """The command lines, by id, of marked processes other than this one."""
    found = {}
    for number in marked_processes(token, MARK):
        try:
            command = Path(f"/proc/{number}/cmdline").read_bytes()
        except OSError:  # it has just ended
            continue
        if number != os.getpid():
            found[number] = command.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def left(grace_s: float = _GRACE_S) -> dict[int, str]:
    """The same after they had time to end."""
    deadline = time.monotonic() + grace_s
    while (found := at_work(os.environ[MARK])) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found
