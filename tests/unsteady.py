"""A pytest plugin: in CI a failed test on a rack or a daemon runs once more, with every fixture set up again.

The second run starts a fresh rack or daemon. If it passes, the run is green; the last lines name the test as
unsteady, and its first failure is printed and kept in a file. Nothing else ever runs twice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from functools import partial
from typing import Any

import pytest

FOLDERS = ("tests/rack/", "tests/kube/")
MARK = "daemon"
# More failures than these in one process are no accident: a fresh rack for each would take an hour.
LIMIT = 3
# What the last lines of a run have of the first failed tests.
SHOWN, LAST_LINES, LINE = 5, 12, 200

FAILED = pytest.StashKey[bool]()
FRESH = pytest.StashKey[bool]()
FRESH_SETUPS = pytest.StashKey[int]()


@pytest.hookimpl(trylast=True)  # after those that add marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let pytest-rerunfailures run a failed test of these groups once more, but only with fresh fixtures."""
    if os.environ.get("CI", "").lower() not in ("true", "1"):
        return
    for item in items:
        if item.nodeid.startswith(FOLDERS) or item.get_closest_marker(MARK):
            condition = partial(item.stash.get, FRESH, False)
            item.add_marker(pytest.mark.flaky(reruns=1, condition=condition))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Remember that the first run has failed."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around pytest-rerunfailures, which would keep shared fixtures
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Tear down the fixtures of every scope after the first failure, so that the second run starts fresh."""
    try:
        if item.stash.get(FAILED, False):
            tear_down_everything(item)
        yield
    except Exception:
        tear_down_everything(item)
        raise


def tear_down_everything(item: pytest.Item) -> None:
    """Once for each test that may run twice, and at most LIMIT times in one process."""
    stash = item.config.stash
    done = stash.get(FRESH_SETUPS, 0)
    if item.get_closest_marker("flaky") and not item.stash.get(FRESH, False) and done < LIMIT:
        item.stash[FRESH], stash[FRESH_SETUPS] = True, done + 1
        item.session._setupstate.teardown_exact(None)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around all that pytest and other plugins print
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> Iterator[None]:
    """Print the first failures of tests that ran twice, and keep those of unsteady ones; the last lines name
    these and failed tests.

    Readers of a long run see its end first.
    """
    stats = terminalreporter.stats
    red = {report.nodeid: report for kind in ("failed", "error") for report in stats.get(kind, ())}
    failures: dict[str, str] = {}
    for report in stats.get("rerun", ()):
        captured = [f"--- {title}\n{text}" for title, text in report.sections]
        text = "\n".join([f"--- {report.when}\n{report.longreprtext}", *captured])
        failures[report.nodeid] = f"{failures.get(report.nodeid, '')}{text}\n"
    for name, text in failures.items():
        terminalreporter.write_sep("=", f"first failure of {name}")
        terminalreporter.write_line(text)
    yield
    for name, text in failures.items():
        if name in red:
            continue
        label = re.sub(r"[^\w.-]+", "-", name)[-150:]
        file = config.cache.mkdir("unsteady") / f"{label}.txt"
        file.write_text(text, encoding="utf-8")
        terminalreporter.write_line(
            f"UNSTEADY: {name} failed, and passed with everything set up again; repair the cause. "
            f"First failure: {file}",
            yellow=True,
        )
    for place, (name, report) in enumerate(red.items()):
        lines = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
        terminalreporter.write_line(f"RED: {name} in its {report.when}", red=True)
        if place >= SHOWN:
            continue
        for line in lines[:LAST_LINES]:
            terminalreporter.write_line(line[:LINE], red=True)
