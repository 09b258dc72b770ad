"""Programs that tests run. `scripts/setup system` installs them all; a test without one fails.

A skip would hide a missing step of the set-up. README.md lists the kinds of tests that may be skipped
(tests/skips.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GO = ROOT / ".venv-go" / "bin" / "go"
# Use only sources pinned in go.sum, and no other Go release.
GO_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
# Debian keeps daemons and root's programs in folders that are not on every user's PATH.
_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/sbin")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def find_program(name: str) -> str:
    """Return the path of a program. Fail the test where it is not installed."""
    path = shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", os.defpath), *_FOLDERS)))
    if path is None:
        pytest.fail(f"{name} is not installed: run `scripts/setup system`", pytrace=False)
    return path


def run_go(
    *arguments: str, folder: Path, timeout_s: float, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Go in the folder of a module: the pinned Go, which the set-up installs.

    Returns the process with text output, whatever its exit code. Fails the test where Go is not installed.
    """
    path = str(GO) if GO.is_file() else find_program("go")
    return subprocess.run(
        [path, *arguments],
        cwd=folder,
        env=os.environ | GO_ENVIRONMENT | (environment or {}),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def find_chromium() -> str:
    """Return the path of a Chromium. Skip the test on Ubuntu, which has it only as a snap."""
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is None and "ID=ubuntu" in Path("/etc/os-release").read_text(encoding="utf-8").splitlines():
        pytest.skip("Chromium is not installed, and Ubuntu has it only as a snap")
    return found or find_program(_BROWSERS[0])
