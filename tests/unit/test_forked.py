"""A forked command ends like one of subprocess.run, also where a process that it has started runs on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked

DETACHED = """
import subprocess, sys
print(subprocess.Popen(["sleep", "10"], start_new_session=True).pid)
print("both", file=sys.stderr)
sys.exit(3)
"""


def run(tmp_path: Path, text: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    script.write_text(text)
    return forked.run([sys.executable, str(script)], cwd=tmp_path, env=dict(os.environ), timeout_s=timeout_s)


def test_code_and_both_outputs_are_returned(tmp_path: Path) -> None:
    done = run(tmp_path, "import sys; print('out'); print('error', file=sys.stderr); sys.exit(3)", 60)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "error\n")


@pytest.mark.parametrize("text", ["import time; time.sleep(600)", DETACHED], ids=["command", "detached"])
def test_what_does_not_end_in_time_is_no_hang(tmp_path: Path, text: str) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run(tmp_path, text, 3)
