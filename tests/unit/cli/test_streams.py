"""Closed, full or unread output: a message, an exit code, and no damage."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
GPUFLEET = f"{shlex.quote(sys.executable)} -m gpufleet.cli.main"


def shell(words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {GPUFLEET} {words}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("words", ["--version", "schema", "catalog instances --json"])
def test_full_output_device_is_a_host_failure(words: str) -> None:
    done = shell(f"{words} >/dev/full")
    assert done.returncode == 4
    assert "standard output cannot be written: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_full_output_device_does_not_hide_an_input_error() -> None:
    done = shell("validate nope --json >/dev/full")
    assert done.returncode == 2
    assert "standard output cannot be written" in done.stderr


@pytest.mark.parametrize("words", ["--version", "state list sandbox", "validate dev --json"])
def test_closed_output_is_refused_before_its_descriptor_is_reused(words: str) -> None:
    done = shell(f"{words} >&-")
    assert done.returncode == 2
    assert "standard output is closed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full", "<&-"])
def test_closed_or_full_stderr_and_closed_stdin_change_no_result(closed: str) -> None:
    done = shell(f"validate dev --json {closed}")
    assert done.returncode == 0
    assert json.loads(done.stdout)["findings"] is not None
    assert shell(f"validate nope {closed}").returncode == 2


@pytest.mark.parametrize("words", ["schema", "inventory prod", "catalog instances"])
def test_closed_output_pipe_ends_a_command_silently(words: str) -> None:
    done = shell(f"{words} 2>&1 | head -1")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 1


def test_invalid_file_names_and_unencodable_characters_are_escaped() -> None:
    done = shell("validate $'\\xff\\e[31m.yaml'")
    assert done.returncode == 2
    assert "\\udcff\\x1b[31m.yaml" in done.stderr
    assert shell("plan dev --json >/dev/null").returncode == 0
    ascii_only = subprocess.run(
        [sys.executable, "-m", "gpufleet.cli.main", "plan", "dev"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONIOENCODING": "ascii", "HOME": "/nonexistent"},
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert ascii_only.returncode == 0
    assert ascii_only.stdout.isascii()
