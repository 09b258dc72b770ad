"""In CI a failed test on a rack or a daemon runs once more, in a fresh rack; nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ("pytester",)

# Each fixture is a rack: a file counts how often it was set up and torn down.
CONFTEST = """
import pytest
from pathlib import Path

def rack(name):
    with Path(name).open("a") as log:
        log.write("up ")
        log.flush()
        yield len(Path(name).read_text().split()) // 2 + 1
        log.write("down ")

@pytest.fixture(scope="session")
def site(): yield from rack("site")

@pytest.fixture(scope="module")
def daemon(): yield from rack("daemon")
"""
# The second test passes only on the second site and the second daemon of the run.
PASSES_LATER = """
def test_before(site, daemon): assert (site, daemon) == (1, 1)

def test_shaky(site, daemon):
    print("said by the rack")
    assert (site, daemon) == (2, 2), "the first failure"

def test_after(site, daemon): assert (site, daemon) == (2, 2)
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A suite with racks, in CI."""
    monkeypatch.setenv("CI", "true")
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\nmarkers = daemon\n")
    return pytester


def run_file(suite: pytest.Pytester, place: str, text: str, *options: str) -> pytest.RunResult:
    """Run one file of the suite."""
    file = suite.path / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return suite.runpytest_inprocess("-p", "tests.unsteady", *(options or ("-p", "no:xdist")), "tests")


def log(suite: pytest.Pytester, name: str) -> str:
    return (suite.path / name).read_text().strip()


@pytest.mark.parametrize("options", [(), ("-n", "1", "--dist", "loadgroup")])
def test_test_that_passes_in_a_fresh_rack_leaves_the_run_green_and_is_named(
    suite: pytest.Pytester, options: tuple[str, ...]
) -> None:
    done = run_file(suite, "tests/rack/test_it.py", PASSES_LATER, *options)
    assert done.ret == pytest.ExitCode.OK
    done.assert_outcomes(passed=3)
    assert [log(suite, name) for name in ("site", "daemon")] == ["up down up down"] * 2
    last = done.outlines[-2]
    assert last.startswith("UNSTEADY: tests/rack/test_it.py::test_shaky failed, and passed")
    kept = Path(last.rpartition("First failure: ")[2]).read_text()
    for reported in ("AssertionError: the first failure", "said by the rack"):
        assert reported in kept and reported in done.stdout.str()


def test_test_that_fails_in_a_fresh_rack_is_red(suite: pytest.Pytester) -> None:
    done = run_file(suite, "tests/kube/test_it.py", "def test_it(site): assert site > 9\n")
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.assert_outcomes(failed=1)
    assert log(suite, "site") == "up down up down"
    assert "UNSTEADY" not in done.stdout.str()
    assert "first failure of tests/kube/test_it.py::test_it" in done.stdout.str()
    assert done.outlines[-3:-1] == ["RED: tests/kube/test_it.py::test_it in its call", "E   assert 2 > 9"]


SETUP_FAILS = """
import pytest

@pytest.fixture
def host(site): assert site > 1

def test_it(host): pass
"""
TEARDOWN_FAILS = """
import pytest

@pytest.fixture
def host(site):
    yield
    assert site > 1

def test_it(host): pass
"""


@pytest.mark.parametrize("text", [SETUP_FAILS, TEARDOWN_FAILS], ids=["setup", "teardown"])
def test_failed_fixture_gets_a_fresh_rack(suite: pytest.Pytester, text: str) -> None:
    done = run_file(suite, "tests/rack/test_it.py", text)
    assert done.ret == pytest.ExitCode.OK
    assert log(suite, "site") == "up down up down"
    assert "UNSTEADY: tests/rack/test_it.py::test_it" in done.outlines[-2]


def test_marked_test_runs_twice_and_an_unmarked_one_does_not(suite: pytest.Pytester) -> None:
    text = """
import pytest

@pytest.mark.daemon
def test_marked(site): assert site == 2

def test_unmarked(daemon): assert daemon == 2
"""
    done = run_file(suite, "tests/unit/test_it.py", text)
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.assert_outcomes(passed=1, failed=1)
    assert log(suite, "daemon") == "up down"
    unsteady, red = done.outlines[-4:-2]
    assert unsteady.startswith("UNSTEADY: tests/unit/test_it.py::test_marked failed")
    assert red == "RED: tests/unit/test_it.py::test_unmarked in its call"


def test_nothing_runs_twice_outside_ci(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI")
    done = run_file(suite, "tests/rack/test_it.py", "def test_it(site): assert site == 2\n")
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    assert log(suite, "site") == "up down"


def test_only_the_first_three_failures_get_a_fresh_rack(suite: pytest.Pytester) -> None:
    text = "import pytest\n@pytest.mark.parametrize('n', range(5))\ndef test_it(n, site): assert site > 9\n"
    done = run_file(suite, "tests/rack/test_it.py", text)
    done.assert_outcomes(failed=5)
    assert log(suite, "site").split().count("up") == 4
