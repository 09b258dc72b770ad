"""A pytest plugin: a test that hangs fails, with the place where it waits, and the run goes on.

Each part of a test has a limit of its own: its set-up, its call, its tear-down, and those of a second run
(tests/unsteady.py). pytest-timeout has one limit for all of them, and ends it at the first failure.
"""

from __future__ import annotations

import faulthandler
import signal
from collections.abc import Iterator
from typing import Any

import pytest

LIMIT_S = 20 * 60
"""The slowest part, a cluster on a rack, takes 4 minutes; on a machine of a quarter of the speed, 16."""
WHOLE_LIFE_S = 90 * 60
"""The part of a test with the mark `whole_life`."""
AGAIN_S = 60
"""A tear-down inside a call may wait for the same thing."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[Any]:
    """Raise in the main thread when a part of the test takes too long, and again until the part ends."""
    limit_s = WHOLE_LIFE_S if item.get_closest_marker("whole_life") else LIMIT_S

    def fail(*_: object) -> None:
        faulthandler.dump_traceback()  # of all threads, into the captured output of the test
        pytest.fail(f"{item.nodeid} hangs: a part of it has not ended after {limit_s} s")

    handler = signal.signal(signal.SIGALRM, fail)
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
