"""Start, find, stop and reset the sandbox's server: one for each checkout, found by its folder.

`ensure` is what every command calls: it returns the address of a running server and starts one
where none runs. Nothing here imports moto; the server is a process of its own that outlives the
command, keeps its state in the same folder, and stops by itself after half an hour without work.
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
"""Where the gpufleet that runs lies: a server runs the same, wherever its caller stands."""


def ensure(
    root: Path, *, idle_s: float | None = None, while_starting: WhileStarting = contextlib.nullcontext
) -> Endpoint:
    """The server of `root`, started if need be. Raises CloudError with the reason when it does not start.

    A start takes seconds, which pass in the context `while_starting()`.

    Any number of callers may do so at once: one server comes up and all get its address. A server
    that runs older code than the caller's is replaced; its state goes over.
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
        raise CloudError(f"the sandbox's server started and does not answer; its log is {files.log}")
    return running


def status(root: Path) -> Endpoint | None:
    """The server of `root` if one runs and answers; starts nothing."""
    return _healthy(Files(root.absolute()))


def stop(root: Path) -> bool:
    """Stop the server of `root`; it saves its state first. False when none ran."""
    files = Files(root.absolute())
    if not files.root.exists():
        return False
    with _locked(files):
        return _stop(files)


def faults(root: Path) -> dict[str, Any] | None:
    """What the server of `root` says of its faults: which hold, and how often they met a request."""
    runtime = Runtime.of(Files(root.absolute()))
    return control(runtime.port, "GET", "faults") if runtime else None


def reset(root: Path) -> None:
    """Forget every resource of the emulated account, and its faults. A running server goes on, empty."""
    files = Files(root.absolute())
    if not files.root.exists():
        return
    with _locked(files):
        files.faults.unlink(missing_ok=True)
        # What the kubernetes provider rendered belongs to clusters that are forgotten with the rest.
        shutil.rmtree(files.root / "manifests", ignore_errors=True)
        runtime = Runtime.of(files)
        if runtime and control(runtime.port, "POST", "reset") is not None:
            return
        _stop(files)
        files.snapshot.unlink(missing_ok=True)


def _start(files: Files, idle_s: float | None) -> None:
    command = [sys.executable, "-m", "gpufleet.lab.aws.server", str(files.root), "--daemon"]
    if idle_s is not None:
        command += ["--idle", str(idle_s)]
    nowhere = Endpoint(f"http://{LOOPBACK}:0", 0)
    environ = {k: v for k, v in isolated_environ(nowhere).items() if not k.startswith("MOTO_")}
    environ["MOTO_DISABLE_GLOBAL_CORS"] = "true"
    environ.pop("AWS_ENDPOINT_URL")
    # The server runs the caller's own gpufleet, wherever the caller stands, and nothing of that place.
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [PACKAGES, environ.get("PYTHONPATH")]))
    # To a file and not to a pipe: a pipe would stay open as long as the daemon lives.
    with files.log.open("wb") as log:
        starting = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environ,
            cwd=files.root,
            # A Ctrl-C at the terminal does not reach it by itself.
            start_new_session=True,
        )
    try:
        code = starting.wait(START_TIMEOUT_S)
    except BaseException as error:
        # The server itself, too: it is in the same group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(starting.pid, signal.SIGKILL)
        starting.wait()
        files.runtime.unlink(missing_ok=True)
        if isinstance(error, subprocess.TimeoutExpired):
            message = (
                f"the sandbox's server did not start within {START_TIMEOUT_S:.0f} s; its log is {files.log}"
            )
            raise CloudError(message) from None
        raise
    if code:
        said = files.log.read_text(errors="replace").strip().splitlines()
        if code != CloudError.exit_code or len(said) < 2:
            raise CloudError(f"the sandbox's server did not start: {(said or ['no reason given'])[-1]}")
        raise CloudError(said[-2], remedy=said[-1])


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
    """A healthy server that runs the code of today, in a folder that has not moved: it saves by path."""
    runtime = Runtime.of(files)
    wanted = (code_stamp(), str(files.root.resolve()))
    return _healthy(files) if runtime and (runtime.code, runtime.folder) == wanted else None


def _late_s(files: Files) -> float:
    if not files.faults.exists():
        return 0.0
    from gpufleet.lab.aws.faults.plan import read_faults

    with contextlib.suppress(InputError):
        # What the server cannot read holds for nobody.
        return read_faults(files.faults).late_s
    return 0.0


def control(port: int, method: str, verb: str) -> dict[str, Any] | None:
    """The answer of the server on that port to a request about itself; None when it does not answer."""
    # http.client knows no proxies, so no variable of the user's leads this request elsewhere.
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=10)
    try:
        connection.request(method, f"/_gpufleet/{verb}", headers={"X-Gpufleet-Sandbox": "1"})
        response = connection.getresponse()
        body = response.read()
        return json.loads(body) if response.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


@contextlib.contextmanager
def _locked(files: Files) -> Iterator[None]:
    files.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    # An flock ends with its holder, however that ends: no stale lock is ever left behind.
    with files.lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
