"""A part of a test that hangs fails with the place where it waits; the run goes on."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests import hung, late
from tests.loading import load_source

pytest_plugins = ("pytester",)

SUITE = """
import threading
import pytest

def wait(name):
    if name == "{part}":
        try:
            threading.Event().wait()
        finally:
            threading.Event().wait()

@pytest.fixture
def waiting():
    wait("setup")
    yield
    wait("teardown")

def test_that_may_hang(waiting):
    wait("call")

def test_next(): pass
"""
BUILDING = "import time\n\ndef test_that_builds():\n    time.sleep(1.5)\n"


def run_suite(pytester: pytest.Pytester, text: str, long_s: float = 600.0) -> pytest.RunResult:
    """Run one file with limits of fractions of a second; those of this test stay."""
    pytester.makepyfile(test_suite=text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hung, "LIMIT_S", 0.3)
        patch.setattr(hung, "LONG_S", long_s)
        patch.setattr(hung, "AGAIN_S", 0.3)
        patch.setattr(hung, "limit", lambda wanted_s: wanted_s)
        patch.setattr(hung, "BUILDERS", ("test_suite.py",) if text == BUILDING else ())
        return pytester.runpytest_inprocess("-p", "tests.hung", "-p", "no:xdist")


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
    pytester: pytest.Pytester, part: str, outcomes: dict[str, int]
) -> None:
    handler, again_s = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[1]
    run = run_suite(pytester, SUITE.format(part=part))
    assert run.parseoutcomes() == outcomes
    if part != "none":
        run.stdout.fnmatch_lines(["*test_that_may_hang hangs: a part of it runs for [0-9]* s"])
        # The stacks, of all threads.
        run.stdout.fnmatch_lines(["*test_suite.py*, line * in wait"])
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL)[1] == again_s


@pytest.mark.parametrize(("long_s", "outcomes"), [(600.0, {"passed": 1}), (0.6, {"failed": 1})])
def test_part_that_builds_programs_has_more_time(
    pytester: pytest.Pytester, long_s: float, outcomes: dict[str, int]
) -> None:
    assert run_suite(pytester, BUILDING, long_s).parseoutcomes() == outcomes


def test_no_part_lasts_longer_than_a_late_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for from_now_s, limit_s in ((300.0, 300.0), (-5.0, 1.0), (float("inf"), hung.LIMIT_S)):
        monkeypatch.setattr(hung, "END", time.time() + from_now_s)
        assert hung.limit(hung.LIMIT_S) == pytest.approx(limit_s, abs=60)


def test_end_of_a_late_run_is_after_its_last_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(late.VARIABLE, "1000")
    copy = load_source(Path(str(hung.__file__)), "hung_of_a_late_run")
    assert copy.END == 1000 + late.END_S + hung.SPARE_S


def test_tests_here_have_the_limit() -> None:
    remaining_s, _ = signal.getitimer(signal.ITIMER_REAL)
    assert 0 < remaining_s <= hung.LIMIT_S
