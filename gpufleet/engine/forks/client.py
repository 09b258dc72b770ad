"""The client of the fork server, and the processes that it returns."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Protocol

# Read when an interpreter or a library starts: a fork cannot use other values.
_AT_START = (
    "PYTHON",
    "LD_",
    "LC_",
    "LANG",
    "FAKETIME",
    "GRPC_",
    "PROTOCOL_BUFFERS_",
    "MALLOC_",
    "GLIBC_",
    "OPENSSL_",
)
SERVER = Path(__file__).with_name("server.py")
# The maximum time of its imports on a cold disk.
_TIMEOUT_S = 60.0
_LARGEST = 1 << 16
# The maximum time for a server to notice that it is not needed any more.
_END_S = 1.0


class Process(Protocol):
    """The part of subprocess.Popen that a run needs."""

    @property
    def pid(self) -> int:
        """Return its id, which is also that of its group."""
        ...

    @property
    def stdout(self) -> IO[str] | None:
        """Return its standard output."""
        ...

    @property
    def stderr(self) -> IO[str] | None:
        """Return its standard error."""
        ...

    def poll(self) -> int | None:
        """Return its exit code once it has ended; negative for a signal."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for and return its exit code. Raises subprocess.TimeoutExpired."""
        ...


class ServerProcess(Protocol):
    """The part of subprocess.Popen that the client needs of the server's process."""

    def kill(self) -> None:
        """End it at once."""
        ...

    def wait(self) -> object:
        """Wait until it has ended."""
        ...


class ForkedProcess:
    """A process that the server has forked."""

    def __init__(self, pid: int, command: Sequence[str], stdout: IO[str], stderr: IO[str]) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self._command = command
        self._code: int | None = None
        self._ended = threading.Event()

    def end(self, code: int) -> None:
        """Record its exit code."""
        self._code = code
        self._ended.set()

    def poll(self) -> int | None:
        """See Process."""
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """See Process."""
        if not self._ended.wait(timeout) or self._code is None:
            raise subprocess.TimeoutExpired(self._command, timeout or 0.0)
        return self._code


class ForkServer:
    """The process that imports and forks. All methods are thread-safe.

    `env` is its environment at the start: processes with another value of a variable that only a start
    reads are not forked.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._start = read_at_start(env)
        self._lock = threading.Lock()
        self._asked = 0
        self._waiting: dict[int, tuple[Future[ForkedProcess | None], Sequence[str], int, int]] = {}
        self._running: dict[int, ForkedProcess] = {}
        self._loaded: set[str] = set()
        self._gone = False
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = start_server(env, theirs)
        self._reader = threading.Thread(target=self._read, name="forks", daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        """Return whether it still forks."""
        return not self._gone

    def load(self, modules: Iterable[str]) -> None:
        """Import modules for all later processes. A module that fails to import is left to them."""
        with self._lock:
            fresh = [name for name in modules if name not in self._loaded]
            self._loaded.update(fresh)
            if fresh:
                with contextlib.suppress(OSError):
                    self._send(0, {"load": fresh}, ())

    def start(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> ForkedProcess | None:
        """Start `command` as a fork in its own session, with both outputs piped; None if not possible."""
        starting = self.begin(command, env, cwd)
        if starting is None:
            return None
        try:
            return starting.result(_TIMEOUT_S)
        except TimeoutError:
            self._process.kill()
            return starting.result()

    def begin(
        self, command: Sequence[str], env: Mapping[str, str], cwd: Path
    ) -> Future[ForkedProcess | None] | None:
        """Request a start like `start`, which begins when the imports requested before are done."""
        asked = _interpreted(command)
        if asked is None or self._gone or read_at_start(env) != self._start or not cwd.is_dir():
            return None
        path = [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry]
        if self._shadowed(path):
            return None
        asked |= {"environment": dict(env), "folder": str(cwd), "path": path, "command": list(command)}
        out, out_end = os.pipe()
        error, error_end = os.pipe()
        future: Future[ForkedProcess | None] = Future()
        try:
            with self._lock:
                self._asked += 1
                number = self._asked
                self._waiting[number] = (future, command, out, error)
                self._send(number, asked, (out_end, error_end))
        except OSError:
            self._refuse(number)
        finally:
            os.close(out_end)
            os.close(error_end)
        return future

    def _shadowed(self, path: Sequence[str]) -> bool:
        """Return whether modules on this path would precede some that have been imported."""
        with self._lock:
            names = {"sitecustomize", "usercustomize", *(name.partition(".")[0] for name in self._loaded)}
        places = [Path(entry, name) for entry in path for name in names]
        return any(place.is_dir() or place.with_suffix(".py").is_file() for place in places)

    def _send(self, number: int, asked: Mapping[str, object], outputs: Sequence[int]) -> None:
        file = os.memfd_create("asked")
        try:
            os.write(file, json.dumps(asked).encode())
            os.lseek(file, 0, os.SEEK_SET)
            socket.send_fds(self._link, [str(number).encode()], [file, *outputs])
        finally:
            os.close(file)

    def _read(self) -> None:
        while True:
            try:
                message = self._link.recv(_LARGEST)
            except OSError:
                message = b""
            if not message:
                break
            answer = json.loads(message)
            if "ended" in answer:
                self._running.pop(answer["ended"]).end(answer["code"])
            elif "refused" in answer:
                self._refuse(answer["number"])
            else:
                self._begin(answer["number"], answer["process"])
        self._gone = True
        for number in list(self._waiting):
            self._refuse(number)
        # The exit codes of these are no longer received.
        for process in list(self._running.values()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.end(-signal.SIGKILL)
        self._process.wait()

    def _begin(self, number: int, pid: int) -> None:
        future, command, out, error = self._waiting.pop(number)
        streams = [open(end, errors="replace") for end in (out, error)]  # noqa: PTH123, SIM115
        process = self._running[pid] = ForkedProcess(pid, command, *streams)
        future.set_result(process)

    def _refuse(self, number: int) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            future, _, out, error = waiting
            os.close(out)
            os.close(error)
            future.set_result(None)

    def close(self) -> None:
        """End the server and the remaining forks."""
        with contextlib.suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)
        # A server that is still importing notices nothing; it has forked nothing either.
        self._reader.join(_END_S if self._asked else 0.0)
        if self._reader.is_alive():
            self._process.kill()
            self._reader.join()
        self._link.close()


def start_server(env: Mapping[str, str], link: socket.socket) -> ServerProcess:
    """Start the process that serves `link`."""
    return subprocess.Popen(  # noqa: S603 - our own interpreter and script
        [sys.executable, "-u", str(SERVER), str(link.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={key: value for key, value in env.items() if key != "PYTHONPATH"},
        start_new_session=True,
        pass_fds=(link.fileno(),),
    )


def read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that only a start reads."""
    return {key: value for key, value in env.items() if key.startswith(_AT_START) and key != "PYTHONPATH"}


def _interpreted(command: Sequence[str]) -> dict[str, object] | None:
    """Return what to run, if the command is this interpreter with no other option than -u."""
    if command[0] != sys.executable:
        return None
    words = list(command[1:])
    if words and words[0] == "-u":
        del words[0]
    if not words:
        return None
    if words[0] in {"-m", "-c"}:
        return {"kind": words[0], "what": words[1], "arguments": words[2:]} if len(words) > 1 else None
    return None if words[0].startswith("-") else {"kind": "script", "what": words[0], "arguments": words[1:]}


_servers: dict[frozenset[tuple[str, str]], ForkServer] = {}
_preparing = threading.Lock()


def prepare(env: Mapping[str, str], modules: Iterable[str] = ()) -> ForkServer | None:
    """Return this process's server for such environments, which imports `modules`; None if not possible.

    It is started on first use, and ends with this process.
    """
    if not sys.platform.startswith("linux"):
        return None
    key = frozenset(read_at_start(env).items())
    with _preparing:
        server = _servers.get(key)
        if server is None or not server.alive:
            server = _servers[key] = ForkServer(env)
    # Every process of a run needs it.
    server.load(("pulumi", *modules))
    return server


def end() -> None:
    """End this process's servers; the next run starts another one."""
    with _preparing:
        servers = list(_servers.values())
        _servers.clear()
    for server in servers:
        server.close()


atexit.register(end)
