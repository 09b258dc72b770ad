"""`python -m gpufleet.lab.aws.server ROOT`: load the saved state, listen on loopback, serve.

With --daemon the process forks once it listens and its state is loaded, and the parent ends: exit status 0
means that the server answers, any other comes with the reason on standard error.
"""

from __future__ import annotations

import argparse
import functools
import gc
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpufleet.errors import ExitCode, GpufleetError
from gpufleet.files import put
from gpufleet.lab.aws.server.process import Files, Runtime, code_stamp, process_start
from gpufleet.lab.aws.server.saver import Saver

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpufleet.lab.aws.server.app import SandboxApp

    Extend = Callable[[SandboxApp], None]

LOOPBACK = "127.0.0.1"
IDLE_S = 30 * 60.0


def main(argv: list[str] | None = None, extend: Extend | None = None) -> int:
    """Run a server until SIGTERM, SIGINT or the idle timeout, and save the state at the end.

    `extend` gets the application before it answers the first request.
    """
    parser = argparse.ArgumentParser(prog="gpufleet.lab.aws.server", description=__doc__)
    parser.add_argument("root", type=Path, help="the folder of the sandbox's files")
    parser.add_argument("--daemon", action="store_true", help="return once the server answers")
    parser.add_argument("--unsaved", action="store_true", help="keep no state on disk")
    parser.add_argument("--empty", action="store_true", help="do not begin with the saved state")
    parser.add_argument(
        "--load", choices=("reads", "all"), help="load the services of a fleet's look-ups, or all, at once"
    )
    parser.add_argument("--idle", type=float, default=IDLE_S, help="seconds without requests before it stops")
    arguments = parser.parse_args(argv)
    # Models of services are a million objects that stay: collections took a sixth of the time. An account
    # of one verdict ends before garbage matters.
    gc.set_threshold(500_000 if arguments.unsaved else 50_000, 100, 100)
    files = Files(arguments.root)
    files.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        server = _Server(
            files, arguments.idle, saves=not arguments.unsaved, empty=arguments.empty, extend=extend
        )
    except GpufleetError as error:
        sys.stderr.write(f"{error.message}\n{error.remedy}\n")
        return int(error.exit_code)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"the sandbox needs the package {error.name}\nrun `pip install 'gpufleet[lab]'`\n")
        return int(ExitCode.CLOUD_FAILURE)
    server.serve(_detach(files.log) if arguments.daemon else None, load=arguments.load)
    if arguments.daemon:
        # Everything is saved and closed: destroying moto's objects one by one would only slow down `stop`.
        os._exit(0)
    return 0


def _detach(log: Path) -> int:
    """Fork. Return in the child, with the descriptor to close once it serves.

    The parent waits for that (or for the child's end) and ends without cleanup, which is the child's task
    now. The caller starts both in their own session, and ends both by their process group if the start is
    interrupted.
    """
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(null)
    os.close(out)
    os.close(reader)
    return writer


class _Server:
    """moto's server on a loopback port, with its saver and its watch.

    The watch stops it when it is idle for too long, or when its folder is gone (a deleted checkout): a server
    without a runtime file cannot be found.
    """

    def __init__(self, files: Files, idle: float, *, saves: bool, empty: bool, extend: Extend | None) -> None:
        from gpufleet.lab.aws.server import snapshot

        self._code = code_stamp()
        if not empty:
            snapshot.check(files.snapshot)
        from werkzeug.serving import make_server

        from gpufleet.lab.aws.faults.inject import Injector
        from gpufleet.lab.aws.server import caches
        from gpufleet.lab.aws.server.app import SandboxApp
        from gpufleet.lab.aws.server.handler import QuietHandler

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        caches.enable()
        if not empty:
            snapshot.load(files.snapshot)
        self._files = files
        self._idle = idle
        self._runtime = Runtime(0, 0, "")
        self._saver = Saver(files.snapshot, self._owns_folder) if saves else None
        changed = self._saver.changed if self._saver is not None else lambda: None
        self._app = SandboxApp(changed, Injector(files.faults), functools.partial(put, files.snapshot))
        if extend is not None:
            extend(self._app)
        try:
            port = int(files.port.read_text())
        except (OSError, ValueError):
            port = 0
        options: dict[str, Any] = {"threaded": True, "request_handler": QuietHandler}
        try:
            self._server = make_server(LOOPBACK, port, self._app, **options)
        except (OSError, SystemExit):
            self._server = make_server(LOOPBACK, 0, self._app, **options)

    def serve(self, ready: int | None, *, load: str | None) -> None:
        """Answer requests until it is stopped or idle for too long; close `ready` at the start."""
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, lambda *_: self._shutdown())
        pid = os.getpid()
        files = self._files
        place = (str(files.root.resolve()), files.identity)
        runtime = Runtime(pid, self._server.server_port, process_start(pid), self._code, *place)
        self._runtime = runtime
        put(self._files.port, str(runtime.port).encode())
        runtime.write(self._files.runtime)
        if self._saver is not None:
            self._saver.start(self._app.lock)
        threading.Thread(target=self._watch, name="sandbox-idle", daemon=True).start()
        if ready is not None:
            os.close(ready)
        if load:
            loading = functools.partial(self._app.load, creates=load == "all")
            threading.Thread(target=loading, name="sandbox-services", daemon=True).start()
        try:
            self._server.serve_forever(poll_interval=0.1)
        finally:
            self._app.closed = True
            try:
                if self._saver is not None:
                    self._saver.close()
            finally:
                self._server.server_close()
                if self._owns_folder():
                    self._files.runtime.unlink()

    def _shutdown(self) -> None:
        # shutdown() waits for serve_forever, which a signal handler interrupts: hence the thread.
        threading.Thread(target=self._server.shutdown, daemon=True).start()

    def _watch(self) -> None:
        while time.monotonic() - self._app.last_request < self._idle and self._owns_folder():
            time.sleep(min(1.0, self._idle / 4))
        self._shutdown()

    def _owns_folder(self) -> bool:
        found = Runtime.read(self._files.runtime)
        return found is not None and (found.pid, found.started) == (self._runtime.pid, self._runtime.started)


if __name__ == "__main__":
    sys.exit(main())
