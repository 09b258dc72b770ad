"""Processes of a run: plugins, policy packs and the program, each in its own group, none left over.

A plugin prints its port as its first line and keeps running. Every process leads its own group, so ending
the group ends its children too. If the engine itself is killed, a small warden process notices (its standard
input closes) and ends the remaining groups.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from gpufleet.engine.errors import PluginError
from gpufleet.engine.forks import ForkServer, Process

OnLine = Callable[[str], None]

# How long a process may take to end before it is killed.
_GRACE_S = 3.0
# How long a plugin may take to print its port: the AWS plugin is a 700 MB executable on a cold disk.
START_TIMEOUT_S = 60.0

# Reads "+<group>" and "-<group>" lines; at the end of its input, ends the groups that are left.
_WARDEN = """
import os, signal, sys, time
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
def send(group, sign):
    try:
        os.killpg(group, sign)
    except OSError:
        groups.discard(group)
for sign in (signal.SIGTERM, signal.SIGKILL):
    for group in list(groups):
        send(group, sign)
    deadline = time.monotonic() + 1
    while groups and time.monotonic() < deadline:
        time.sleep(0.02)
        for group in list(groups):
            send(group, 0)
"""


class ProcessGroup:
    """All processes of one run. `close` ends them; so does the end of this process.

    `held` are descriptors of files that stay open until the last process has ended: a lock on one of them
    outlives this process while its providers may still be running. `forks` starts forkable processes.
    """

    def __init__(self, held: Sequence[int] = (), forks: ForkServer | None = None) -> None:
        self._lock = threading.Lock()
        self._forks = forks
        self._running: list[Process] = []
        self._closed = False
        self._warden = subprocess.Popen(  # noqa: S603 - our own interpreter and text
            [sys.executable, "-I", "-S", "-c", _WARDEN],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
            pass_fds=held,
        )

    def start(self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> Process:
        """Start `command` in its own group, with both outputs piped and no input."""
        if not self._closed:
            forked = self._forks.start(command, env, cwd) if self._forks is not None else None
            process = forked or _started(command, env, cwd)
            with self._lock:
                self._running.append(process)
                self._notify_warden(f"+{process.pid}")
            if not self._closed:
                return process
            self.end(process, grace_s=0.0)
            for stream in filter(None, (process.stdout, process.stderr)):
                stream.close()
        raise PluginError("the run is ending: no further process starts")

    def end(self, process: Process, *, grace_s: float = _GRACE_S) -> None:
        """End one process and its group: SIGTERM, then SIGKILL after `grace_s`."""
        _signal_group(process, signal.SIGTERM)
        self._reap(process, time.monotonic() + grace_s)

    def _reap(self, process: Process, deadline: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
        # The leader may have ended and left children: the group is killed in either case.
        _signal_group(process, signal.SIGKILL)
        process.wait()
        with self._lock:
            if process in self._running:
                self._running.remove(process)
                self._notify_warden(f"-{process.pid}")

    def close(self) -> None:
        """End all remaining processes together, and the warden."""
        with self._lock:
            self._closed = True
            left = list(self._running)
        for process in left:
            _signal_group(process, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_S
        for process in left:
            self._reap(process, deadline)
        if self._warden.stdin is not None:
            self._warden.stdin.close()
        self._warden.wait()

    def _notify_warden(self, line: str) -> None:
        if self._warden.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self._warden.stdin.write(line + "\n")
                self._warden.stdin.flush()


def _started(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> Process:
    try:
        return subprocess.Popen(  # noqa: S603 - the user's own program and plugins
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as error:
        raise PluginError(f"{command[0]} cannot be started: {error.strerror}") from error


def _signal_group(process: Process, sign: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, sign)


def pump(stream: IO[str] | None, on_line: OnLine) -> threading.Thread:
    """Read `stream` to its end in a thread, line by line."""

    def run() -> None:
        if stream is not None:
            with stream:
                for line in stream:
                    on_line(line.rstrip("\n"))

    thread = threading.Thread(target=run, name="pump", daemon=True)
    thread.start()
    return thread


class PluginProcess:
    """A running plugin: its `port`, and its last lines on stderr.

    `name` is its name in messages ("provider 'aws'"). The engine's address follows the command, and
    `arguments` follow the address.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        engine_address: str,
        group: ProcessGroup,
        *,
        env: Mapping[str, str],
        cwd: Path,
        on_line: OnLine,
        arguments: Sequence[str] = (),
    ) -> None:
        self.name = name
        self._stderr: deque[str] = deque(maxlen=40)
        self._on_line = on_line
        self._group = group
        self._process = group.start([*command, engine_address, *arguments], env=env, cwd=cwd)
        self._pumps = [pump(self._process.stderr, self._keep)]
        self.port = self._read_port(command)

    def _keep(self, line: str) -> None:
        self._stderr.append(line)
        self._on_line(line)

    def _read_port(self, command: Sequence[str]) -> int:
        lines: queue.Queue[str | None] = queue.Queue()
        started = False

        def on_stdout(line: str) -> None:
            if started:
                self._on_line(line)
            else:
                lines.put(line)

        reader = pump(self._process.stdout, on_stdout)
        self._pumps.append(reader)

        def on_end() -> None:
            reader.join()
            lines.put(None)

        threading.Thread(target=on_end, name="plugin-start", daemon=True).start()
        try:
            line = lines.get(timeout=START_TIMEOUT_S)
        except queue.Empty:
            self.stop()
            raise PluginError(
                f"{self.name} did not print its port within {START_TIMEOUT_S:.0f} s",
                remedy=f"run it by hand: {' '.join(command)}",
            ) from None
        started = True
        if line is None or not line.strip().isdigit():
            self.stop()
            output = "\n".join([*([line] if line else []), *self._stderr]) or "nothing"
            raise PluginError(
                f"{self.name} did not start: it printed\n{output}",
                remedy=f"run it by hand: {' '.join(command)}",
            )
        return int(line)

    @property
    def alive(self) -> bool:
        """Return whether the process is still running."""
        return self._process.poll() is None

    def last_lines(self) -> str:
        """Return the last lines that it wrote to stderr: all of them once it has ended."""
        if not self.alive:
            # The end of a process is visible before its last lines are read. Its children may keep the
            # pipe open longer.
            self._pumps[0].join(timeout=1.0)
        return "\n".join(self._stderr)

    def stop(self) -> None:
        """End the process and its group."""
        self._group.end(self._process)
        for thread in self._pumps:
            thread.join(timeout=1.0)


def plugin_command(
    package: str, version: str, named: Mapping[str, Sequence[str]], env: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the command that serves `package`: configured, on PATH, or in the user's plugin folder."""
    if package in named:
        return tuple(named[package])
    if package == "pulumi-python":
        return (sys.executable, "-u", "-m", "pulumi.dynamic")
    executable = f"pulumi-resource-{package}"
    on_path = shutil.which(executable, path=env.get("PATH"))
    if on_path:
        return (on_path,)
    home = Path(env.get("PULUMI_HOME") or Path(env.get("HOME", "~")).expanduser() / ".pulumi")
    pattern = f"resource-{package}-v{version}" if version else f"resource-{package}-v*"
    installed = sorted((home / "plugins").glob(f"{pattern}/{executable}"), key=_plugin_version)
    if installed:
        return (str(installed[-1]),)
    wanted = f"{package} {version}".strip()
    raise PluginError(
        f"no provider plugin for package '{package}': neither configured, nor {executable} on PATH, "
        f"nor in {home / 'plugins'}",
        remedy=f"`pulumi plugin install resource {wanted}` installs it; or add {executable} to PATH",
    )


def _plugin_version(path: Path) -> tuple[int, ...]:
    digits = path.parent.name.rpartition("-v")[2].split("-")[0].split(".")
    return tuple(int(part) if part.isdigit() else 0 for part in digits)
