"""A part of a test that hangs fails with the place where it waits; the run goes on."""

from __future__ import annotations

import signal

import pytest

from tests import hung

pytest_plugins = ("pytester",)

SUITE = """
import threading
import pytest

def wait(name):
    if name == "{part}":
        try:
            threading.Event().wait()
        finally:
            threading.Event().wait({again_s})

@pytest.fixture
def waiting():
    wait("setup")
    yield
    wait("teardown")

def test_that_may_hang(waiting):
    wait("call")

def test_next(): pass
"""


@pytest.mark.parametrize(
    ("part", "outcomes"),
    [
        ("setup", {"errors": 1, "passed": 1}),
        ("call", {"failed": 1, "passed": 1}),
        ("teardown", {"errors": 1, "passed": 2}),
        ("none", {"passed": 2}),
    ],
)
def test_part_that_hangs_fails_and_the_next_test_runs(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, part: str, outcomes: dict[str, int]
) -> None:
    monkeypatch.setattr(hung, "LIMIT_S", 0.3)
    monkeypatch.setattr(hung, "AGAIN_S", 0.3)
    pytester.makepyfile(SUITE.format(part=part, again_s=""))
    before = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    run = pytester.runpytest_inprocess("-p", "tests.hung", "-p", "no:xdist")
    assert run.parseoutcomes() == outcomes
    if part != "none":
        run.stdout.fnmatch_lines(["*test_that_may_hang hangs: a part of it has not ended after 0.3 s"])
        # The stacks, of all threads.
        run.stdout.fnmatch_lines(["*test_part_that_hangs*.py*, line * in wait"])
    handler, timer = before
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL)[1] == timer[1]


def test_tests_here_have_the_limit() -> None:
    remaining_s, again_s = signal.getitimer(signal.ITIMER_REAL)
    assert hung.LIMIT_S - 60 < remaining_s <= hung.LIMIT_S
    assert again_s == hung.AGAIN_S
