"""An emulated AWS for one verdict: a process of its own, in a temporary folder, gone at the end.

The sandbox of the checkout is never touched, and any number of verdicts run side by side.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpufleet.errors import CloudError
from gpufleet.sandbox.credentials import isolated_environ, sandbox_env
from gpufleet.sandbox.daemon import Endpoint
from gpufleet.sandbox.server.process import Files, Runtime

START_TIMEOUT_S = 60.0
IDLE_S = 120.0
"""The server ends by itself after so long, should this process die without ending it."""
_PACKAGES = str(Path(__file__).absolute().parents[2])
_TAIL = 2000


@dataclass(frozen=True, slots=True)
class ThrowawayAccount:
    """An emulated AWS that lives as long as one verdict. `folder` is the verdict's own, for its states."""

    folder: Path
    endpoint: Endpoint

    @property
    def env(self) -> dict[str, str]:
        """What sends the program and the providers there, and away from any account of the user's."""
        own = {"GPUFLEET_SANDBOX_DIR": str(self.folder / "aws"), "GPUFLEET_KUBECONFIG": ""}
        return sandbox_env(self.endpoint) | own


@contextlib.contextmanager
def throwaway_account() -> Iterator[ThrowawayAccount]:
    """An empty emulated account. Raises CloudError with the server's own words when it does not start."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-verdict-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        root = folder / "aws"
        root.mkdir(mode=0o700)
        process = _start(root)
        try:
            yield ThrowawayAccount(folder, _answering(process, root))
        finally:
            _end(process)


def _start(root: Path) -> subprocess.Popen[bytes]:
    environ = {k: v for k, v in isolated_environ(Endpoint("", 0)).items() if not k.startswith("MOTO_")}
    environ["MOTO_DISABLE_GLOBAL_CORS"] = "true"
    environ.pop("AWS_ENDPOINT_URL")
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_PACKAGES, environ.get("PYTHONPATH")]))
    with (root / "start.log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", "gpufleet.sandbox.server", str(root), "--idle", str(IDLE_S)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environ,
            cwd=root,
            # In a group of its own: an interruption of the command reaches it through `_end` alone.
            start_new_session=True,
        )


def _answering(process: subprocess.Popen[bytes], root: Path) -> Endpoint:
    files = Files(root)
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        runtime = Runtime.read(files.runtime)
        if runtime is not None and runtime.pid == process.pid:
            # The socket listens since before the file was written: requests wait until it serves.
            return Endpoint(f"http://127.0.0.1:{runtime.port}", runtime.pid)
        time.sleep(0.01)
    said = (root / "start.log").read_text(errors="replace")[-_TAIL:].strip()
    raise CloudError(f"the emulated AWS of this verdict did not start: {said or 'no reason given'}")


def _end(process: subprocess.Popen[bytes]) -> None:
    # Nothing that it holds is worth saving.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
