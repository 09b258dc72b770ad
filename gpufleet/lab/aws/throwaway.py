"""An emulated AWS for one verdict: a separate process in a temporary folder, removed at the end.

It does not use the sandbox of the checkout, and any number of verdicts can run in parallel.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import urlsplit

from gpufleet.errors import GpufleetError
from gpufleet.lab.aws.credentials import isolated_environ, sandbox_env
from gpufleet.lab.aws.daemon import PACKAGES, control
from gpufleet.lab.aws.endpoint import Endpoint
from gpufleet.lab.aws.server.process import Files, Runtime
from gpufleet.loopback import LOOPBACK, require_loopback

START_TIMEOUT_S = 60.0
SERVER = "gpufleet.lab.aws.throwaway_server"
IDLE_S = 300.0
"""The server ends by itself after this time, in case this process ends without stopping it."""
_TAIL = 2000
_PUMPED_S = 1.0


class AccountProcess(Protocol):
    """The part of subprocess.Popen that an account needs."""

    @property
    def pid(self) -> int:
        """Return its id, which is also that of its group."""
        ...

    def poll(self) -> int | None:
        """Return its exit code once it has ended."""
        ...

    def wait(self) -> int:
        """Wait until it has ended."""
        ...


class ForkedServer(AccountProcess, Protocol):
    """A forked process, with its outputs in pipes."""

    @property
    def stdout(self) -> IO[str] | None:
        """Return its standard output."""
        ...

    @property
    def stderr(self) -> IO[str] | None:
        """Return its standard error."""
        ...


Fork = Callable[[Sequence[str], Mapping[str, str], Path], "Future[Any] | None"]
"""Begins to start a command as a fork of a process with the same imports; None if that is not possible."""


class ThrowawayAccount:
    """An emulated AWS for one verdict. `folder` is the verdict's own, for its states.

    It starts in the background; `endpoint` waits for it. It loads the services of a fleet's look-ups at once,
    before the program is ready for them; with `creates` also those of its resources. `fork` starts the
    server, if it can.
    """

    def __init__(
        self, folder: Path, passphrase: str = "", *, creates: bool = False, fork: Fork | None = None
    ) -> None:
        self.folder = folder
        self._root = folder / "aws"
        self._root.mkdir(mode=0o700, exist_ok=True)
        self._files = Files(self._root)
        self._log = self._root / "start.log"
        self._pumps: list[threading.Thread] = []
        self._continues = self._files.snapshot.exists()
        self.passphrase = passphrase or secrets.token_hex(16)
        """The passphrase of secrets in states."""
        require_loopback()
        self._command = _command(self._root, creates=creates)
        self._environ = _environ()
        self._starting = fork(self._command, self._environ, self._root) if fork is not None else None
        if self._starting is None:
            # At once: the caller goes on while it starts.
            _ = self._process

    def continue_from_files(self, passphrase: str) -> None:
        """Continue from the files of another account, which are below `folder` now, with its passphrase."""
        self._continues = True
        self.passphrase = passphrase

    @cached_property
    def endpoint(self) -> Endpoint:
        """Return its address; wait until it answers. Raises GpufleetError with its output if it ends."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            runtime = Runtime.read(self._files.runtime)
            if runtime is not None and runtime.pid == self._process.pid:
                # The socket was listening before the file was written: requests wait until it serves.
                if (
                    self._continues
                    and self._control(runtime.port, "restore", str(self._files.snapshot)) is None
                ):
                    break
                return Endpoint(f"http://{LOOPBACK}:{runtime.port}", runtime.pid)
            time.sleep(0.01)
        self._join_pumps()
        log_tail = self._log.read_text(errors="replace")[-_TAIL:].strip() if self._log.exists() else ""
        raise GpufleetError(
            f"the emulated AWS of this verdict did not start: {log_tail or 'no reason given'}",
            remedy="`gpufleet sandbox start` shows whether one can start on this machine",
        )

    @property
    def env(self) -> dict[str, str]:
        """Return variables that send the program and the providers there, away from the user's accounts."""
        # A profile that the user has selected must exist for the SDK, though nothing is read from it.
        profile = self.folder / "aws-config"
        profile.write_text("[default]\n", encoding="utf-8")
        return sandbox_env(self.endpoint) | {
            "AWS_CONFIG_FILE": str(profile),
            "AWS_PROFILE": "default",
            "AWS_DEFAULT_PROFILE": "default",
            "GPUFLEET_SANDBOX_DIR": str(self._root),
            "GPUFLEET_KUBECONFIG": "",
            "PULUMI_CONFIG_PASSPHRASE": self.passphrase,
        }

    @cached_property
    def _process(self) -> AccountProcess:
        forked: ForkedServer | None = self._starting.result() if self._starting is not None else None
        if forked is not None:
            self._log_outputs(forked)
            return forked
        with self._log.open("wb") as log:
            return subprocess.Popen(  # noqa: S603 - our own interpreter and module
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environ,
                cwd=self._root,
                # In its own group: an interruption of the command must not reach it before `end` does.
                start_new_session=True,
            )

    def _log_outputs(self, process: ForkedServer) -> None:
        def keep(stream: IO[str]) -> None:
            with stream:
                for line in stream:
                    with contextlib.suppress(FileNotFoundError), self._log.open("a") as log:
                        log.write(line)

        for stream in (process.stdout, process.stderr):
            if stream is not None:
                pump = threading.Thread(target=keep, args=(stream,), name="account-log", daemon=True)
                pump.start()
                self._pumps.append(pump)

    def save(self) -> tuple[Path, ...]:
        """Save the contents of the account. Return the files, from which another one can continue."""
        if self._control(urlsplit(self.endpoint.url).port or 0, "save") is None:
            raise GpufleetError("the emulated AWS of this verdict did not write its state")
        manifests = self._files.manifests
        return self._files.snapshot, *(path for path in manifests.rglob("*") if path.is_file())

    @staticmethod
    def _control(port: int, verb: str, document: object = None) -> object:
        return control(port, "POST", verb, document)

    def end(self) -> None:
        """Stop the server without saving."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> None:
        """Wait for the end of the server."""
        self._process.wait()
        self._join_pumps()

    def _join_pumps(self) -> None:
        for pump in self._pumps:
            pump.join(_PUMPED_S)


def _command(root: Path, *, creates: bool) -> list[str]:
    code = (
        f"import runpy, sys; sys.path.insert(0, {PACKAGES!r}); "
        f"runpy.run_module({SERVER!r}, run_name='__main__')"
    )
    options = ["--unsaved", "--empty", "--idle", str(IDLE_S), "--load", "all" if creates else "reads"]
    return [sys.executable, "-c", code, str(root), *options]


def _environ() -> dict[str, str]:
    nowhere = isolated_environ(Endpoint("", 0))
    environ = {name: value for name, value in nowhere.items() if not name.startswith("MOTO_")}
    environ["MOTO_DISABLE_GLOBAL_CORS"] = "true"
    environ.pop("AWS_ENDPOINT_URL")
    return environ
