"""A pytest plugin: a skip whose reason README.md does not list fails the run and is printed.

README's section "Tests that may be skipped" has a table; the first column holds, in backticks, how a reason
begins. A program that `scripts/setup system` installs is never a reason (tests/programs.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
HEADING = "## Tests that may be skipped\n"


def listed_reasons(text: str) -> tuple[str, ...]:
    """Prefixes of the reasons in README's text."""
    section = text.partition(HEADING)[2].partition("\n## ")[0]
    return tuple(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


def skip_reasons(config: pytest.Config) -> Counter[str]:
    """Number of skips by reason in this run."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    reports = reporter.stats.get("skipped", []) if reporter else []
    return Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in reports)


def unlisted_reasons(config: pytest.Config) -> list[str]:
    """The reasons of this run that README does not list."""
    listed = listed_reasons(README.read_text(encoding="utf-8"))
    return sorted(reason for reason in skip_reasons(config) if not reason.startswith(listed))


@pytest.hookimpl(trylast=True)  # after the worker processes have ended
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Make a run with an unlisted skip fail."""
    green = session.exitstatus == pytest.ExitCode.OK
    if green and not hasattr(session.config, "workerinput") and unlisted_reasons(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(wrapper=True, tryfirst=True)  # after everything that pytest itself prints
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> Iterator[None]:
    """Print the counts of the run, with the skipped tests by reason, and each unlisted skip as an error."""
    yield
    stats, skipped = terminalreporter.stats, skip_reasons(config)
    failed = sum(len(stats.get(kind, ())) for kind in ("failed", "error"))
    for reason, count in skipped.most_common():
        terminalreporter.write_line(f"skipped {count}: {reason}")
    for reason in unlisted_reasons(config):
        message = f'ERROR: README.md, "{HEADING[3:-1]}", does not list this skip: {reason}'
        terminalreporter.write_line(message, red=True)
    passed = len(stats.get("passed", ()))
    terminalreporter.write_line(f"tests: {passed} passed, {failed} failed, {skipped.total()} skipped")
