"""What a run of Ansible that was ended leaves on this machine: processes at work, and its folder.

Ansible's workers lead sessions of their own, so that ending `ansible-playbook` and its group leaves
them at work. Whatever they start inherits a mark in the environment. (Linux; elsewhere nothing is found.)
The folder has what tasks returned, which no journal of ours has without its secrets taken out.
"""

from __future__ import annotations

import glob
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

MARK = "GPUFLEET_ANSIBLE_RUN"
_GRACE_S = 3.0
_PROC = Path("/proc")


def folder_prefix(token: str) -> str:
    """How the names of the folders begin that a run has in the system's folder for such."""
    return f"gpufleet-ansible-{token[:12]}-"


def marking(token: str) -> dict[str, str]:
    """What all processes of a run have in their environment.

    Ansible's workers give themselves titles, which setproctitle writes over the environment that others see,
    unless it is told not to.
    """
    return {MARK: token, "SPT_NOENV": "1"}


def clear(token: str) -> None:
    """Ends every process with the mark, and removes the run's folders."""
    end_marked(token)
    for folder in Path(tempfile.gettempdir()).glob(f"{glob.escape(folder_prefix(token))}*"):
        shutil.rmtree(folder, ignore_errors=True)


def marked(token: str, mark: str = MARK) -> list[int]:
    """Processes of this user whose environment carries `token` as the value of `mark`."""
    wanted = f"{mark}={token}".encode()
    found = []
    # Not with a file in the pattern: pathlib asks whether it exists, and fails on a process that just ends.
    for process in _PROC.glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        if wanted in environment.split(b"\0"):
            found.append(int(process.name))
    return found


def end_marked(token: str) -> None:
    """Ends every process with the mark: asks first, and insists after a few seconds."""
    deadline = time.monotonic() + _GRACE_S
    sign = signal.SIGTERM
    while left := marked(token):
        if time.monotonic() > deadline:
            sign = signal.SIGKILL
        for process in left:
            try:
                os.kill(process, sign)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline + _GRACE_S:
            return
        time.sleep(0.1)
