"""A late run leaves out tests of slow groups and says so; a test that has failed still runs again."""

from __future__ import annotations

import time

import pytest

from tests import late

pytest_plugins = ("pytester",)

SUITE = """
from pathlib import Path
import pytest

@pytest.fixture
def rack():
    Path("started").touch()

@pytest.mark.xdist_group("rack-sites")
def test_slow(rack): pass

def test_quick(): pass
"""
UNSTEADY = """
import time
from pathlib import Path
import pytest

@pytest.mark.xdist_group("kube")
@pytest.mark.daemon
def test_unsteady():
    if not Path("failed").exists():
        Path("failed").touch()
        time.sleep(max(0, {late_at} - time.time()))
        assert False
"""


def run_suite(pytester: pytest.Pytester, text: str) -> dict[str, int]:
    """Return the outcomes of a run of one file."""
    pytester.makeini("[pytest]\nmarkers =\n  daemon\n  xdist_group\n")
    pytester.makepyfile(text)
    plugins = [word for name in ("timings", "unsteady", "late") for word in ("-p", f"tests.{name}")]
    return pytester.runpytest_inprocess(*plugins, "-p", "no:xdist").parseoutcomes()


@pytest.mark.parametrize(
    ("from_now_s", "outcomes"),
    [
        (-1.0 - late.END_S, {"skipped": 2}),
        (60.0 - late.END_S, {"passed": 1, "skipped": 1}),
        (-1.0, {"passed": 1, "skipped": 1}),
        (600.0, {"passed": 2}),
    ],
)
def test_tests_of_slow_groups_are_left_out_before_their_fixtures(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    from_now_s: float,
    outcomes: dict[str, int],
) -> None:
    monkeypatch.setenv(late.VARIABLE, str(time.time() + from_now_s))
    assert run_suite(pytester, SUITE) == outcomes
    assert (pytester.path / "started").exists() == (from_now_s > 0)


def test_another_group_begins_at_another_commit_where_a_run_may_be_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups = ("e2e", "kube", "etcd")
    monkeypatch.delenv(late.VARIABLE, raising=False)
    assert late.turned(groups) == groups
    monkeypatch.setenv(late.VARIABLE, str(time.time()))
    first = []
    for commit in range(3):
        monkeypatch.setattr(late, "_commit", lambda commit=commit: commit)
        assert sorted(late.turned(groups)) == sorted(groups)
        first.append(late.turned(groups)[0])
    assert first == ["e2e", "kube", "etcd"]


def test_nothing_is_left_out_without_a_limit(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(late.VARIABLE, raising=False)
    assert run_suite(pytester, SUITE) == {"passed": 2}


def test_failed_test_runs_again_in_a_late_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    late_at = time.time() + 3
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv(late.VARIABLE, str(late_at))
    assert run_suite(pytester, UNSTEADY.format(late_at=late_at)) == {"passed": 1, "rerun": 1}
