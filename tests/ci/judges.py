"""The tools that judge the CI templates: actionlint from its Go module, the others from the lock file.

The module in `actionlint/` names the version and, in its go.sum, the hash of every source. The binary
is kept under `.gpufleet/cache`, by version and platform.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.programs import ROOT, run_go

MODULE = Path(__file__).parent / "actionlint"
PACKAGE = "github.com/rhysd/actionlint/cmd/actionlint"
BIN = Path(sys.executable).parent
_BUILD_TIMEOUT_S = 600


def version() -> str:
    """The version of actionlint that the module pins."""
    found = re.search(rf"^require {PACKAGE.removesuffix('/cmd/actionlint')} v(\S+)$", _go_mod(), re.MULTILINE)
    assert found, "actionlint/go.mod does not require actionlint"
    return found[1]


def actionlint() -> Path:
    """The binary, built if needed; one build at a time over all test processes."""
    path = _binary()
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            fresh = path.with_suffix(".new")
            done = run_go(
                *("build", "-trimpath", "-o", str(fresh), PACKAGE),
                folder=MODULE,
                timeout_s=_BUILD_TIMEOUT_S,
            )
            assert done.returncode == 0, f"actionlint {version()} did not build:\n{done.stderr[-3000:]}"
            fresh.replace(path)
    return path


def run(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A judge's run, with the tools of the lock file first on PATH."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _binary() -> Path:
    return ROOT / ".gpufleet" / "cache" / "actionlint" / f"{version()}-{os.uname().machine}" / "actionlint"


def _go_mod() -> str:
    return (MODULE / "go.mod").read_text()
