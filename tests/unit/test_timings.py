"""A run of all tests prints its slowest and its time by group."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import ROOT

TEXT = """
import time, pytest

@pytest.fixture(scope="module")
def slow():
    time.sleep(0.3)

@pytest.mark.xdist_group("racks")
def test_one(slow): pass

@pytest.mark.xdist_group("racks")
def test_two(): pass

def test_three(): pass
"""


def run_suite(folder: Path, *options: str) -> str:
    """Return the output of a run of three tests with the plugin."""
    place = folder / "tests" / "unit" / "plan" / "test_it.py"
    place.parent.mkdir(parents=True)
    place.write_text(TEXT)
    words = [sys.executable, "-m", "pytest", "-p", "tests.timings", "-c", "/dev/null", "--rootdir", folder]
    done = subprocess.run(
        [*words, *options, place], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("options", [(), ("-n", "1", "--dist", "loadgroup")])
def test_groups_are_printed_with_seconds_and_tests_longest_first(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    lines = run_suite(tmp_path, "--durations=20", *options).splitlines()
    found = [match for line in lines if (match := re.fullmatch(r" *([\d.]+) s +(\d+) tests  (\S+)", line))]
    assert [(each[2], each[3]) for each in found] == [("2", "racks"), ("1", "unit/plan/")]
    assert float(found[0][1]) >= 0.3


def test_run_without_durations_prints_no_groups(tmp_path: Path) -> None:
    assert "by group" not in run_suite(tmp_path)


def test_make_test_prints_the_slowest_twenty() -> None:
    words = subprocess.run(
        ["make", "-n", "test"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert "--durations=20" in words
