"""This side of the fork server: what asks it, and the processes that it gives."""

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

# Read when an interpreter or a library starts: a fork cannot take over other values.
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
# As long as what it imports may take on a cold disk.
_TIMEOUT_S = 60.0
_LARGEST = 1 << 16
# As long as a server may take to notice that it is not needed any more.
_END_S = 1.0


class Process(Protocol):
    """What a run needs of a process; subprocess.Popen has it."""

    @property
    def pid(self) -> int:
        """Its id, and that of its group."""
        ...

    @property
    def stdout(self) -> IO[str] | None:
        """What it writes."""
        ...

    @property
    def stderr(self) -> IO[str] | None:
        """What it writes besides."""
        ...

    def poll(self) -> int | None:
        """Its exit code once it has ended; negative for a signal."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code. Raises subprocess.TimeoutExpired."""
        ...


class ServerProcess(Protocol):
    """What this side needs of the server's process; subprocess.Popen has it."""

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
        """Note how it ended."""
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
    """The process that imports and forks. All methods may be called from several threads.

    `env` is what it starts with: processes with another value of a variable that only a start reads are
    not forked.
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
        """Whether it still forks."""
        return not self._gone

    def load(self, modules: Iterable[str]) -> None:
        """Have it import these for all processes to come. What it cannot import is left to them."""
        with self._lock:
            fresh = [name for name in modules if name not in self._loaded]
            self._loaded.update(fresh)
            if fresh:
                with contextlib.suppress(OSError):
                    self._send(0, {"load": fresh}, ())

    def start(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> ForkedProcess | None:
        """`command` as a fork in a session of its own, with both outputs piped; None if it cannot be one."""
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
        try:
            return future.result(_TIMEOUT_S)
        except TimeoutError:
            self._process.kill()
            return future.result()

    def _shadowed(self, path: Sequence[str]) -> bool:
        """Whether modules on this path would go before some that have been imported."""
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
        # Nobody learns any more how these end.
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
        """End the server, and with it what it has forked and is left."""
        with contextlib.suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)
        # One that still imports notices nothing; it has forked nothing either.
        self._reader.join(_END_S)
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
    """What this interpreter is to run, where it is this interpreter and no more than -u is asked of it."""
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
    """This process's server for such environments, which imports `modules`; None where none can be.

    It is started when it is first asked for, and ends with this process.
    """
    if not sys.platform.startswith("linux"):
        return None
    key = frozenset(read_at_start(env).items())
    with _preparing:
        server = _servers.get(key)
        if server is None or not server.alive:
            server = _servers[key] = ForkServer(env)
    # All that a run starts needs it.
    server.load(("pulumi", *modules))
    return server


def end() -> None:
    """End this process's servers; the next run starts one anew."""
    with _preparing:
        servers = list(_servers.values())
        _servers.clear()
    for server in servers:
        server.close()


atexit.register(end)
