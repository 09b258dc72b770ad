"""Starts, finds, stops and resets the sandbox's server: one per checkout, found by its folder.

Every command calls `ensure`, which returns the address of a running server and starts one if none runs.
Nothing here imports moto: the server is a separate process that outlives the command, keeps its state in the
same folder, and stops after half an hour without requests.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpufleet.errors import CloudError, InputError
from gpufleet.lab.aws.credentials import isolated_environ, sandbox_env
from gpufleet.lab.aws.endpoint import Endpoint
from gpufleet.lab.aws.server.process import Files, Runtime, code_stamp
from gpufleet.loopback import LOOPBACK, require_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    WhileStarting = Callable[[], contextlib.AbstractContextManager[None]]

__all__ = ["Endpoint", "ensure", "faults", "reset", "sandbox_env", "status", "stop"]

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
PACKAGES = str(Path(__file__).absolute().parents[3])
"""The folder of the running gpufleet: the server runs the same version, whatever its working folder."""


def ensure(
    root: Path, *, idle_s: float | None = None, while_starting: WhileStarting = contextlib.nullcontext
) -> Endpoint:
    """Return the server of `root`; start it if needed. Raises CloudError with the reason if it fails.

    A start takes seconds, during which the context `while_starting()` is active.

    Concurrent callers get the address of the same server. A server with older code than the caller's is
    replaced, and the new one takes over its state.
    """
    files = Files(root.absolute())
    running = _current(files)
    if running:
        return running
    with _locked(files):
        running = _current(files)
        if running:
            return running
        require_loopback()
        _stop(files)
        with while_starting():
            _start(files, idle_s)
            running = _healthy(files)
    if not running:
        raise CloudError(f"the sandbox's server started but does not answer; see its log {files.log}")
    return running


def status(root: Path) -> Endpoint | None:
    """Return the server of `root` if one runs and answers; start nothing."""
    return _healthy(Files(root.absolute()))


def stop(root: Path) -> bool:
    """Stop the server of `root`, which first saves its state. Return False if none ran."""
    files = Files(root.absolute())
    if not files.root.exists():
        return False
    with _locked(files):
        return _stop(files)


def faults(root: Path) -> dict[str, Any] | None:
    """Return the faults of the server of `root`, and how often they met a request."""
    runtime = Runtime.of(Files(root.absolute()))
    return control(runtime.port, "GET", "faults") if runtime else None


def reset(root: Path) -> None:
    """Delete every resource and fault of the emulated account. A running server continues, empty."""
    files = Files(root.absolute())
    if not files.root.exists():
        return
    with _locked(files):
        files.faults.unlink(missing_ok=True)
        # Manifests of the kubernetes provider belong to clusters that are deleted too.
        shutil.rmtree(files.root / "manifests", ignore_errors=True)
        runtime = Runtime.of(files)
        if runtime and control(runtime.port, "POST", "reset") is not None:
            return
        _stop(files)
        files.snapshot.unlink(missing_ok=True)


def _start(files: Files, idle_s: float | None) -> None:
    command = [sys.executable, "-m", "gpufleet.lab.aws.server", str(files.root), "--daemon"]
    command += ["--load", "all"]
    if idle_s is not None:
        command += ["--idle", str(idle_s)]
    nowhere = Endpoint(f"http://{LOOPBACK}:0", 0)
    environ = {k: v for k, v in isolated_environ(nowhere).items() if not k.startswith("MOTO_")}
    environ["MOTO_DISABLE_GLOBAL_CORS"] = "true"
    environ.pop("AWS_ENDPOINT_URL")
    # The server runs the caller's own gpufleet, without modules of its working folder.
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [PACKAGES, environ.get("PYTHONPATH")]))
    # To a file, not a pipe, which would stay open as long as the daemon runs.
    with files.log.open("wb") as log:
        starting = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environ,
            cwd=files.root,
            # In its own session: a Ctrl-C at the terminal does not reach it.
            start_new_session=True,
        )
    try:
        code = starting.wait(START_TIMEOUT_S)
    except BaseException as error:
        # The server is in the same group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(starting.pid, signal.SIGKILL)
        starting.wait()
        files.runtime.unlink(missing_ok=True)
        if isinstance(error, subprocess.TimeoutExpired):
            message = (
                f"the sandbox's server did not start within {START_TIMEOUT_S:.0f} s; see its log {files.log}"
            )
            raise CloudError(message) from None
        raise
    if code:
        log_lines = files.log.read_text(errors="replace").strip().splitlines()
        if code != CloudError.exit_code or len(log_lines) < 2:
            raise CloudError(f"the sandbox's server did not start: {(log_lines or ['no reason given'])[-1]}")
        raise CloudError(log_lines[-2], remedy=log_lines[-1])


def _stop(files: Files) -> bool:
    runtime = Runtime.of(files)
    if runtime is None:
        files.runtime.unlink(missing_ok=True)
        return False
    for signum in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(runtime.pid, signum)
        except ProcessLookupError:
            break
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while runtime.alive and time.monotonic() < deadline:
            time.sleep(0.02)
        if not runtime.alive:
            break
    files.runtime.unlink(missing_ok=True)
    return True


def _healthy(files: Files) -> Endpoint | None:
    runtime = Runtime.of(files)
    if runtime is None or control(runtime.port, "GET", "health") is None:
        return None
    return Endpoint(f"http://{LOOPBACK}:{runtime.port}", runtime.pid, _late_s(files))


def _current(files: Files) -> Endpoint | None:
    """Return a healthy server with the current code in an unmoved folder: it saves by path."""
    runtime = Runtime.of(files)
    wanted = (code_stamp(), str(files.root.resolve()))
    return _healthy(files) if runtime and (runtime.code, runtime.folder) == wanted else None


def _late_s(files: Files) -> float:
    if not files.faults.exists():
        return 0.0
    from gpufleet.lab.aws.faults.plan import read_faults

    with contextlib.suppress(InputError):
        # Unreadable faults have no effect.
        return read_faults(files.faults).late_s
    return 0.0


def control(port: int, method: str, verb: str, document: object = None) -> dict[str, Any] | None:
    """Return the server's answer to a request about itself; None if it does not answer."""
    body = None if document is None else json.dumps(document)
    # http.client uses no proxies, so the user's variables do not redirect this request.
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=10)
    try:
        connection.request(method, f"/_gpufleet/{verb}", body, {"X-Gpufleet-Sandbox": "1"})
        response = connection.getresponse()
        answer = response.read()
        return json.loads(answer) if response.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


@contextlib.contextmanager
def _locked(files: Files) -> Iterator[None]:
    files.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    # An flock ends with its holder, so no stale lock is left.
    with files.lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
