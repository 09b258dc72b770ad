"""Run programs in parallel, each with a time limit, and never wait for one that cannot be killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NOT_FOUND, TIMED_OUT = 127, 124
KILL_S = 0.5


@dataclass(frozen=True)
class CommandResult:
    """Result of a program. `code` is NOT_FOUND or TIMED_OUT if it did not end by itself.

    `left` is the PID of a process that could not be killed (a driver that hangs in the kernel), or 0.
    """

    code: int
    out: str = ""
    err: str = ""
    left: int = 0

    @property
    def message(self) -> str:
        """Its error output, in one line."""
        text = " ".join((self.err.strip() or self.out.strip()).split())
        return text[:200] or f"exit code {self.code}"


def run(command: Sequence[str], limit_s: float, given: str | None = None) -> CommandResult:
    """Run `command`, which reads `given`, for at most `limit_s` seconds."""
    environment = {"PATH": os.environ.get("GPUFLEET_HEALTH_PATH", PATH), "LC_ALL": "C", "HOME": "/root"}
    try:
        process = subprocess.Popen(  # noqa: S603 - the programs are named in this package
            list(command),
            stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
            text=True,
            errors="replace",
        )
    except OSError as error:
        return CommandResult(NOT_FOUND, err=f"{command[0]}: {error.strerror}")
    try:
        out, err = process.communicate(given, timeout=limit_s)
        return CommandResult(process.returncode, out, err)
    except subprocess.TimeoutExpired:
        pass
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    message = f"{command[0]} did not end within {limit_s:g} s"
    try:
        process.communicate(timeout=KILL_S)
    except subprocess.TimeoutExpired:
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        return CommandResult(TIMED_OUT, err=message, left=process.pid)
    return CommandResult(TIMED_OUT, err=message)


def run_all(commands: Mapping[str, Sequence[str]], limit_s: float) -> dict[str, CommandResult]:
    """Run all of them in parallel."""
    if not commands:
        return {}
    with ThreadPoolExecutor(max_workers=len(commands)) as pool:
        running = {name: pool.submit(run, command, limit_s) for name, command in commands.items()}
        return {name: future.result() for name, future in running.items()}


def alive(pid: int) -> bool:
    """Whether a process still exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
