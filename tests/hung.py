"""A pytest plugin: a test that hangs fails, with the place where it waits, and the run goes on.

Each part of a test has a limit of its own: its set-up, its call, its tear-down, and those of a second run
(tests/unsteady.py). pytest-timeout has one limit for all of them, and ends it at the first failure. In a run
that may be late, no part lasts longer than the run.
"""

from __future__ import annotations

import faulthandler
import signal
import time
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from tests import late

LIMIT_S = 30.0 * 60
"""The slowest part, the set-up of a site on a rack, took 15 minutes beside another rack on a slow machine."""
LONG_S = 90.0 * 60
"""A part of a test with the mark `whole_life`, and one that builds programs or waits for their builder."""
AGAIN_S = 60.0
"""A tear-down inside a call may wait for the same thing."""
SPARE_S = 5.0 * 60
"""From when no test begins until those that run must end."""
END = late.late_at() + late.END_S + SPARE_S
"""Seconds since 1970; that of this run, also in tests that run others."""
BUILDERS = ("tests/go_programs.py", "gpufleet/lab/rack/cache.py")


def limit(wanted_s: float) -> float:
    """Seconds from now until a part must end."""
    return max(1.0, min(wanted_s, END - time.time()))


def is_building(frame: FrameType | None) -> bool:
    """Whether what runs builds programs from their sources."""
    return any(each.f_code.co_filename.endswith(BUILDERS) for each, _ in traceback.walk_stack(frame))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[Any]:
    """Raise in the main thread when a part of the test takes too long, and again until the part ends."""
    begun_at = time.monotonic()
    long_until = begun_at + limit(LONG_S)

    def fail(_: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if is_building(frame) and now < long_until:
            signal.setitimer(signal.ITIMER_REAL, limit(min(LIMIT_S, long_until - now)), AGAIN_S)
            return
        faulthandler.dump_traceback()  # of all threads, into the captured output of the test
        pytest.fail(f"{item.nodeid} hangs: a part of it runs for {now - begun_at:.0f} s")

    handler = signal.signal(signal.SIGALRM, fail)
    limit_s = limit(LONG_S if item.get_closest_marker("whole_life") else LIMIT_S)
    timer = signal.setitimer(signal.ITIMER_REAL, limit_s, AGAIN_S)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


pytest_runtest_call = pytest_runtest_teardown = pytest_runtest_setup


def pytest_enter_pdb() -> None:
    """Who looks for an error has time."""
    signal.setitimer(signal.ITIMER_REAL, 0)
