"""A pytest plugin: with --durations the run prints the seconds of its tests by group, the longest first.

A group is what one process of a run takes in order (mark `xdist_group`); tests without one count for their
folder in tests/ or tests/unit/. The seconds of set-up and tear-down count for the test that waits for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from typing import Any

import pytest


def group_of(item: pytest.Item) -> str:
    """Return the name of the item's group, or of its folder."""
    mark = item.get_closest_marker("xdist_group")
    if mark:
        return str(mark.kwargs.get("name") or mark.args[0])
    *folders, _ = item.nodeid.partition("::")[0].removeprefix("tests/").split("/")
    depth = 2 if folders[:1] == ["unit"] else 1
    return "".join(f"{folder}/" for folder in folders[:depth]) or "./"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Write the group into the report: the process that prints has no items where several run tests."""
    report = yield
    report.group = group_of(item)
    return report


@pytest.hookimpl(trylast=True)  # below the slowest tests, which pytest itself prints
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print a line for each group: its seconds and how many tests it has."""
    if config.option.durations is None:
        return
    seconds: dict[str, float] = defaultdict(float)
    tests: dict[str, set[str]] = defaultdict(set)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "group"):
                seconds[report.group] += report.duration
                tests[report.group].add(report.nodeid)
    terminalreporter.write_sep("=", f"seconds by group, {sum(seconds.values()):.0f} in all")
    for group in sorted(seconds, key=lambda name: -seconds[name]):
        terminalreporter.write_line(f"{seconds[group]:8.1f} s  {len(tests[group]):5} tests  {group}")
