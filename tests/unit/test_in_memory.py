"""Temporary files of a run are in memory where it has room, and go with the run unless it fails."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.in_memory import has_room

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
from pathlib import Path
from tests import in_memory
in_memory.MEMORY = Path({memory!r})
in_memory.has_room = lambda folder: True
pytest_plugins = ["tests.in_memory"]
"""
SUITE = """
import tempfile
from pathlib import Path

def test_it(tmp_path):
    assert {{Path({memory!r})}} & {{*tmp_path.parents}} & {{*Path(tempfile.mkdtemp()).parents}}
    assert {passes}
"""


@pytest.mark.parametrize("passes", [True, False])
def test_folder_of_a_run_goes_unless_a_test_fails(tmp_path: Path, passes: bool) -> None:
    memory, suite = tmp_path / "memory", tmp_path / "suite"
    memory.mkdir()
    # The first is of a run that has ended, the second of one that goes on, and the third of no run.
    for name in ("gpufleet-0", "gpufleet-1", "gpufleet-data"):
        (memory / name / "left").mkdir(parents=True)
    running = os.open(memory / "gpufleet-1", os.O_RDONLY)
    fcntl.flock(running, fcntl.LOCK_EX)
    suite.mkdir()
    (suite / "conftest.py").write_text(CONFTEST.format(memory=str(memory)))
    (suite / "test_it.py").write_text(SUITE.format(memory=str(memory), passes=passes))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", suite, suite]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=suite, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == (0 if passes else 1), done.stdout
    os.close(running)
    assert not (memory / "gpufleet-0" / "left").exists()
    left = {each.name for each in memory.iterdir()}
    assert left == {"gpufleet-1", "gpufleet-data"} | (set() if passes else {"gpufleet-0"})


def test_folder_needs_room_and_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_room(tmp_path, needed_gib=0, available_gib=0)
    assert not has_room(tmp_path, needed_gib=2**20, available_gib=0)
    assert not has_room(tmp_path, needed_gib=0, available_gib=2**20)
    assert not has_room(tmp_path / "missing", needed_gib=0, available_gib=0)
    found = SimpleNamespace(f_bavail=2**30, f_frsize=4096, f_flag=os.ST_NOEXEC)
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    assert not has_room(tmp_path, available_gib=0)
    found.f_flag = 0
    assert has_room(tmp_path, available_gib=0)
