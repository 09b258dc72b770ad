"""A pytest plugin: in a late run, tests of slow groups that have not begun are left out, and the run says so.

CI machines differ in speed by a factor of four, and CI ends after an hour and a half. `.ci/run` sets the time
from which its run is late; without it nothing is left out. Before CI ends, the others are left out as well: a
run without an end shows nothing. The order of slow groups and of tests without a group turns with the commit,
so that not the same tests are left out each time.
"""

from __future__ import annotations

import functools
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from tests.timings import group_of
from tests.unsteady import FAILED

Part = TypeVar("Part")
VARIABLE = "GPUFLEET_TEST_LATE_AT"
END_S = 40 * 60
"""From when a run is late until no test at all begins."""
SLOW = ("rack-", "kube", "etcd", "e2e")
"""How the names of groups begin that take most of the time: racks, clusters, whole runs of the program."""


def late_at() -> float:
    """Seconds since 1970 from which this run is late."""
    return float(os.environ.get(VARIABLE, "inf"))


def is_late(item: pytest.Item) -> bool:
    """Whether it is too late to begin this test. One that has failed runs again at any time."""
    if item.stash.get(FAILED, False):
        return False
    return time.time() >= late_at() + (0 if group_of(item).startswith(SLOW) else END_S)


def turned(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The parts in the order of a run that may be late: another one begins at another commit."""
    start = _commit() % len(parts) if parts and VARIABLE in os.environ else 0
    return (*parts[start:], *parts[:start])


@functools.cache
def _commit() -> int:
    """The start of the commit's name as a number; 0 outside of a repository."""
    words = ["git", "rev-parse", "--short=8", "HEAD"]
    root = Path(__file__).parent
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    return int(done.stdout, 16) if done.returncode == 0 else 0


@pytest.hookimpl(tryfirst=True)  # before fixtures, which start racks
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave the test out if the run is late."""
    if is_late(item):
        pytest.skip(f"the run is late: {group_of(item)}")
