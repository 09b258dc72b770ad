"""Which tests reach a line: all run once without a mutant, and coverage.py records the tests of each line.

A mutant is then judged in seconds, by the tests that can find it. What a test reads from a cache that an
earlier test of its file has filled counts for the earlier test alone: there may be a survivor too many.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.run import failed_tests, forked

TIMEOUT_S = 3600.0


@dataclass
class Lines:
    """The tests that reach each line of a file (its path without links), and the seconds of each test."""

    by_line: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def tests(self, file: str, first: int, last: int) -> list[str]:
        """Tests that reach one of the lines: of the file's mirror, its package, then others; fast first."""
        source = Path(file).resolve()
        lines = ((str(source), number) for number in range(first, last + 1))
        found = {test for line in lines for test in self.by_line.get(line, ())}

        def order(test: str) -> tuple[bool, bool, float, str]:
            path = Path(test.partition("::")[0])
            others = path.stem != f"test_{source.stem}", path.parent.name not in source.parts
            return *others, self.seconds[test], test

        return sorted(found, key=order)


def measure(files: Sequence[str], sources: Collection[str], left_out: Sequence[str], workers: int) -> Lines:
    """Run the test files in forked processes; the lines of `sources` that each of their tests reaches.

    `left_out` are single tests that do not run. Raises RuntimeError if a test fails.
    """
    lines = Lines()
    for file, found in forked(files, lambda file: _run(file, sources, left_out), workers, TIMEOUT_S):
        if not isinstance(found, Lines):
            raise RuntimeError(f"{file}: {found}")
        lines.seconds |= found.seconds
        for line, tests in found.by_line.items():
            lines.by_line.setdefault(line, set()).update(tests)
    return lines


def _run(file: str, sources: Collection[str], left_out: Sequence[str]) -> Lines:
    import coverage

    # coverage.py names files by their paths without links: the rules are in a linked folder.
    real = [str(Path(each).resolve()) for each in sources]
    measured = coverage.Coverage(data_file=None, config_file=False, include=real)
    lines = Lines()

    class Contexts:
        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
            measured.switch_context(item.nodeid)
            started = time.process_time()
            try:
                return (yield)
            finally:
                lines.seconds[item.nodeid] = time.process_time() - started

    measured.start()
    try:
        failed = failed_tests([file], broken=left_out, plugins=[Contexts()])
    finally:
        measured.stop()
    if failed:
        raise RuntimeError(f"fails without a mutant: {failed[0]}")
    data = measured.get_data()
    for source in data.measured_files():
        for line, tests in data.contexts_by_lineno(source).items():
            lines.by_line[source, line] = {test for test in tests if test}
    return lines
