"""An emulated AWS for one verdict: a process of its own, in a temporary folder, gone at the end.

The sandbox of the checkout is never touched, and any number of verdicts run side by side.
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
"""The server ends by itself after so long, should this process die without ending it."""
_TAIL = 2000


class ThrowawayAccount:
    """An emulated AWS that lives as long as one verdict. `folder` is the verdict's own, for its states.

    It starts while the caller does something else; `endpoint` waits for it.
    """

    def __init__(self, folder: Path, passphrase: str = "") -> None:
        self.folder = folder
        self._root = folder / "aws"
        self._root.mkdir(mode=0o700, exist_ok=True)
        self.passphrase = passphrase or secrets.token_hex(16)
        """Of the secrets in states."""
        self._process = self._start()

    @cached_property
    def endpoint(self) -> Endpoint:
        """Where it answers; waits until it does. Raises GpufleetError with its own words if it ends."""
        files = Files(self._root)
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            runtime = Runtime.read(files.runtime)
            if runtime is not None and runtime.pid == self._process.pid:
                # The socket listens since before the file was written: requests wait until it serves.
                return Endpoint(f"http://{LOOPBACK}:{runtime.port}", runtime.pid)
            time.sleep(0.01)
        said = (self._root / "start.log").read_text(errors="replace")[-_TAIL:].strip()
        raise GpufleetError(
            f"the emulated AWS of this verdict did not start: {said or 'no reason given'}",
            remedy="`gpufleet sandbox start` shows whether one starts on this machine at all",
        )

    @property
    def env(self) -> dict[str, str]:
        """What sends the program and the providers there, and away from any account of the user's."""
        # A profile that the user has chosen must exist for the SDK, though nothing is taken from it.
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
        with (self._root / "start.log").open("wb") as log:
            return subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-m", SERVER, str(self._root), "--unsaved", "--idle", str(IDLE_S)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                cwd=self._root,
                # A group of its own: an interruption of the command must not reach it before `end` does.
                start_new_session=True,
            )

    def save(self) -> tuple[Path, ...]:
        """Write down what the account holds. Returns the files, from which another one can go on."""
        files = Files(self._root)
        if control(urlsplit(self.endpoint.url).port or 0, "POST", "save") is None:
            raise GpufleetError("the emulated AWS of this verdict did not write its state")
        return files.snapshot, *(path for path in files.manifests.rglob("*") if path.is_file())

    def end(self) -> None:
        """Stop the server. Nothing that it holds is worth saving."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
