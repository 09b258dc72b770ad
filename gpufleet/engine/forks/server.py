"""Forks Python processes from one that has imported their common packages, for `client.py`.

Run as a script, with the number of a socket. A message is a number, with the rest in an attached file:
modules to import, or a process to start with its outputs. It answers with the process, and with its exit
code when it has ended. It ends when its socket closes.

It imports nothing of gpufleet: a forked process may be a program of another checkout, with modules of the
same names.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import sys
import tempfile
import time
import types
from typing import Any

import setproctitle

_LARGEST = 1 << 16


class _Server:
    """The loop; it returns in each forked process with what to run, and at its end with None."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._woken, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)

    def run(self) -> dict[str, Any] | None:
        """Serve until the socket is closed."""
        while True:
            sources: list[Any] = [self._link, self._woken]
            ready = select.select(sources, [], [])[0]
            if self._woken in ready:
                os.read(self._woken, _LARGEST)
                self._report_ended()
            if self._link in ready:
                message, files, _, _ = socket.recv_fds(self._link, _LARGEST, 3)
                if not message:
                    return None
                with open(files[0], encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
                    asked: dict[str, Any] = json.load(file)
                if "load" in asked:
                    _load(asked["load"])
                elif self._forked(int(message), files[1:]):
                    return asked

    def _forked(self, number: int, outputs: list[int]) -> bool:
        """Fork; return True in the new process, which keeps only its outputs."""
        threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208
        if threads > 1:
            # Locks of other threads would stay locked for ever in the new process.
            self._answer({"number": number, "refused": f"{threads} threads"})
        else:
            ready, own = os.pipe()
            process = os.fork()
            if process == 0:
                os.close(ready)
                self._close_descriptors(outputs)
                os.close(own)
                return True
            os.close(own)
            # Wait until it leads its own group: the client may end that group at once.
            os.read(ready, 1)
            os.close(ready)
            self._answer({"number": number, "process": process})
        for output in outputs:
            os.close(output)
        return False

    def _close_descriptors(self, outputs: list[int]) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        for number, output in enumerate(outputs, start=1):
            os.dup2(output, number)
            os.close(output)
        for number, name in enumerate(("stdout", "stderr")[: len(outputs)], start=1):
            _reopen(number, name)
        self._link.close()
        os.close(self._woken)
        os.close(self._waker)

    def _report_ended(self) -> None:
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if process == 0:
                return
            self._answer({"ended": process, "code": os.waitstatus_to_exitcode(status)})

    def _answer(self, answer: dict[str, Any]) -> None:
        self._link.send(json.dumps(answer).encode())


def _reopen(number: int, name: str) -> None:
    """Open the stream again: the one for /dev/null considers itself seekable."""
    made = getattr(sys, name)
    binary = open(number, "wb", 0 if made.write_through else -1, closefd=False)  # noqa: SIM115
    again = io.TextIOWrapper(
        binary,
        made.encoding,
        made.errors,
        line_buffering=made.line_buffering,
        write_through=made.write_through,
    )
    setattr(sys, name, again)
    setattr(sys, f"__{name}__", again)


def _load(modules: list[str]) -> None:
    for name in modules:
        # A module that cannot be imported here fails in the process that needs it, with its message.
        with contextlib.suppress(Exception):
            # Inspected, since some packages load their parts only on access.
            getattr(importlib.import_module(name), "_", None)
    # Frozen: neither checked for garbage nor copied for that.
    gc.freeze()


def _run_as(asked: dict[str, Any], path: list[str]) -> None:
    """Run as the requested interpreter: `-m module`, `-c text` or a script, and arguments."""
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()
    # Of the environment, too: the folder for temporary files.
    tempfile.tempdir = None
    os.chdir(asked["folder"])
    kind, what, arguments = asked["kind"], asked["what"], asked["arguments"]
    # The name in `ps`: otherwise all would have the server's.
    setproctitle.setproctitle(os.fsencode(" ".join(asked["command"])).decode(errors="replace"))
    sys.orig_argv = list(asked["command"])
    first = {"-m": os.getcwd(), "-c": ""}.get(kind) or os.path.dirname(os.path.realpath(what))  # noqa: PTH109, PTH120
    sys.path[:] = ["" if kind == "-c" else first, *asked["path"], *path]
    importlib.invalidate_caches()
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__annotations__ = {}
    gc.set_threshold(200_000, 20, 100)
    gc.enable()
    if kind == "-m":
        sys.argv = ["-m", *arguments]
        runpy._run_module_as_main(what)  # type: ignore[attr-defined]
        return
    sys.argv = [what if kind == "script" else "-c", *arguments]
    if kind == "script":
        main.__file__, main.__dict__["__cached__"] = what, None
        with open(what, "rb") as file:  # noqa: PTH123
            text: str | bytes = file.read()
    else:
        text = what
    exec(compile(text, what if kind == "script" else "<string>", "exec"), main.__dict__)  # noqa: S102


if __name__ == "__main__":
    # The library finds the title's place by the environment, which changes later.
    setproctitle.setproctitle("gpufleet-fork-server")
    # This script's own folder must not be on the path of forked processes.
    del sys.path[0]
    gc.disable()
    found = _Server(socket.socket(fileno=int(sys.argv[1]))).run()
    if found is None:
        # No orderly end is needed, and destroying all imported objects takes a while.
        os._exit(0)
    _run_as(found, list(sys.path))
