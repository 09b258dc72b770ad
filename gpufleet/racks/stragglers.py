"""Leftovers of an interrupted run of Ansible on this machine: processes still running, and its folder.

Ansible's workers are session leaders: they keep running when `ansible-playbook` and its group end. All
processes of a run inherit a mark in their environment. (Linux only; elsewhere no process is found.)
The folder contains results of tasks, which our journals keep only without secrets.
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
    """The prefix of a run's folders in the system's folder for temporary files."""
    return f"gpufleet-ansible-{token[:12]}-"


def mark_environment(token: str) -> dict[str, str]:
    """The environment variables of all processes of a run.

    Ansible's workers set process titles. Without SPT_NOENV, that overwrites the environment in /proc.
    """
    return {MARK: token, "SPT_NOENV": "1"}


def clear_run(token: str) -> None:
    """End every process with the mark, and remove the run's folders."""
    end_marked(token)
    for folder in Path(tempfile.gettempdir()).glob(f"{glob.escape(folder_prefix(token))}*"):
        shutil.rmtree(folder, ignore_errors=True)


def marked_processes(token: str, mark: str = MARK) -> list[int]:
    """Return the ids of this user's processes whose environment has `token` as the value of `mark`."""
    wanted = f"{mark}={token}".encode()
    found = []
    # No file in the pattern: pathlib checks that it exists, and fails for a process that ends meanwhile.
    for process in _PROC.glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        if wanted in environment.split(b"\0"):
            found.append(int(process.name))
    return found


def end_marked(token: str) -> None:
    """End every process with the mark: SIGTERM first, SIGKILL after a few seconds."""
    deadline = time.monotonic() + _GRACE_S
    sign = signal.SIGTERM
    while left := marked_processes(token):
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
