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
import time
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from gpufleet.errors import GpufleetError
from gpufleet.lab.aws.credentials import isolated_environ, sandbox_env
from gpufleet.lab.aws.daemon import PACKAGES, control
from gpufleet.lab.aws.endpoint import Endpoint
from gpufleet.lab.aws.server.process import Files, Runtime
from gpufleet.loopback import LOOPBACK, require_loopback

START_TIMEOUT_S = 60.0
SERVER = "gpufleet.lab.aws.server"
IDLE_S = 300.0
"""The server ends by itself after this time, in case this process ends without stopping it."""
_TAIL = 2000


class ThrowawayAccount:
    """An emulated AWS for one verdict. `folder` is the verdict's own, for its states.

    It starts in the background; `endpoint` waits for it. With `load` it loads the services of a fleet at
    once, which takes longer, but not during the first creations.
    """

    def __init__(self, folder: Path, passphrase: str = "", *, load: bool = False) -> None:
        self.folder = folder
        self._load = load
        self._root = folder / "aws"
        self._root.mkdir(mode=0o700, exist_ok=True)
        self.passphrase = passphrase or secrets.token_hex(16)
        """The passphrase of secrets in states."""
        self._process = self._start()

    @cached_property
    def endpoint(self) -> Endpoint:
        """Return its address; wait until it answers. Raises GpufleetError with its output if it ends."""
        files = Files(self._root)
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            runtime = Runtime.read(files.runtime)
            if runtime is not None and runtime.pid == self._process.pid:
                # The socket was listening before the file was written: requests wait until it serves.
                return Endpoint(f"http://{LOOPBACK}:{runtime.port}", runtime.pid)
            time.sleep(0.01)
        log_tail = (self._root / "start.log").read_text(errors="replace")[-_TAIL:].strip()
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

    def _start(self) -> subprocess.Popen[bytes]:
        require_loopback()
        nowhere = isolated_environ(Endpoint("", 0))
        environ = {name: value for name, value in nowhere.items() if not name.startswith("MOTO_")}
        environ["MOTO_DISABLE_GLOBAL_CORS"] = "true"
        environ.pop("AWS_ENDPOINT_URL")
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, [PACKAGES, environ.get("PYTHONPATH")]))
        options = ["--load"] if self._load else []
        with (self._root / "start.log").open("wb") as log:
            return subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-m", SERVER, str(self._root), "--unsaved", "--idle", str(IDLE_S), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                cwd=self._root,
                # In its own group: an interruption of the command must not reach it before `end` does.
                start_new_session=True,
            )

    def save(self) -> tuple[Path, ...]:
        """Save the contents of the account. Return the files, from which another one can continue."""
        files = Files(self._root)
        if control(urlsplit(self.endpoint.url).port or 0, "POST", "save") is None:
            raise GpufleetError("the emulated AWS of this verdict did not write its state")
        return files.snapshot, *(path for path in files.manifests.rglob("*") if path.is_file())

    def end(self) -> None:
        """Stop the server without saving."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
