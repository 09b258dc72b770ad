"""The tools that judge the CI templates: actionlint from its Go module, the others from the lock file.

The module in `actionlint/` names the version and, in its go.sum, the hash of every source.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.go_programs import GoProgram
from tests.programs import ROOT

MODULE = Path(__file__).parent / "actionlint"
PACKAGE = "github.com/rhysd/actionlint/cmd/actionlint"
BIN = Path(sys.executable).parent


def actionlint() -> Path:
    """The binary, built if needed."""
    return GoProgram("actionlint", MODULE, PACKAGE).built()


def run(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A judge's run, with the tools of the lock file first on PATH."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
