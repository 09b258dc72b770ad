"""Fork servers of the commands that tests run, forked from one process that has imported pulumi_aws.

Each command starts a fork server of its own (gpufleet/engine/forks), and importing the packages there takes
more time than all else that most commands do. Here one process of each test process imports them once, and
is forked for each command. The fork serves as gpufleet's own script does.

A test process calls `address_of`; tests/forked.py has its commands import this module, which replaces how
they start their server; tests/warm_server.py is the process that imports and is forked.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from gpufleet.engine.forks import client
from gpufleet.preload import LIBRARIES

VARIABLE = "GPUFLEET_TEST_FORKS"
_PLAIN = client.start_server
# Keyed by everything that only a start reads: a fork cannot change it. Each with the pipe that ends it.
_started: dict[frozenset[tuple[str, str]], tuple[str, int, subprocess.Popen[bytes]]] = {}


def address_of(env: Mapping[str, str]) -> str:
    """Return the address at which commands with this environment get their fork server. Start it if need be.

    It ends with the process that calls this.
    """
    key = frozenset(client.read_at_start(env).items())
    if key not in _started:
        address = f"gpufleet-test-{secrets.token_hex(8)}"
        ours, theirs = os.pipe()[::-1]
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(f"\0{address}")
            listener.listen(64)
            words = [sys.executable, "-u", str(Path(__file__).with_name("warm_server.py"))]
            process = subprocess.Popen(
                [*words, str(listener.fileno()), str(theirs), str(client.SERVER), "pulumi", *LIBRARIES],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={name: value for name, value in env.items() if name != "PYTHONPATH"},
                start_new_session=True,
                pass_fds=(listener.fileno(), theirs),
            )
        os.close(theirs)
        _started[key] = address, ours, process
    return _started[key][0]


@atexit.register
def end() -> None:
    """End the server of `address_of`."""
    for _, pipe, process in _started.values():
        os.close(pipe)
        process.wait()
    _started.clear()


class _ForkedProcess:
    """The process of a fork server that another process has forked."""

    def __init__(self, process: int) -> None:
        self._handle: int | None = None
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            self._handle = os.pidfd_open(process)

    def kill(self) -> None:
        if self._handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def wait(self) -> None:
        if self._handle is not None:
            select.select([self._handle], [], [])


def start_server(env: Mapping[str, str], link: socket.socket) -> client.ServerProcess:
    """Have the process at the address of the environment forked; it serves `link`."""
    address = os.environ.get(VARIABLE)
    if address is None or client.read_at_start(env) != client.read_at_start(os.environ):
        return _PLAIN(env, link)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
            asked.connect(f"\0{address}")
            socket.send_fds(asked, [b"fork"], [link.fileno()])
            return _ForkedProcess(int(asked.recv(32)))
    except (OSError, ValueError):  # it has ended, as has the test process that a command outlives
        return _PLAIN(env, link)


client.start_server = start_server
