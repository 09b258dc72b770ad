"""The tests that reach a line are found by running them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation import reached

pytestmark = pytest.mark.xdist_group("mutation")

SOURCE = """
def least(number):
    if number < 3:
        return 3
    return number
"""
TESTS = """
import runpy

least = runpy.run_path({source!r})["least"]

def test_raised():
    assert least(1) == 3

def test_kept():
    assert least(4) == {kept}
"""


def measure(folder: Path, kept: int) -> tuple[str, reached.Lines]:
    """The file of the source, in a linked folder as the rules are, and what its tests reach."""
    (folder / "real").mkdir()
    (folder / "linked").symlink_to(folder / "real")
    source, tests = folder / "linked" / "sizes.py", folder / "test_sizes.py"
    source.write_text(SOURCE)
    tests.write_text(TESTS.format(source=str(source), kept=kept))
    return str(source), reached.measure([str(tests)], [str(source)], (), 1)


def test_lines_have_the_tests_that_reach_them(tmp_path: Path) -> None:
    source, lines = measure(tmp_path, kept=4)
    assert [each.rpartition("::")[2] for each in lines.tests(source, 4, 4)] == ["test_raised"]
    assert [each.rpartition("::")[2] for each in lines.tests(source, 5, 5)] == ["test_kept"]
    assert {each.rpartition("::")[2] for each in lines.tests(source, 3, 3)} == {"test_raised", "test_kept"}
    assert lines.tests(source, 6, 6) == []


def test_a_test_that_fails_without_a_mutant_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"fails without a mutant: .*test_kept"):
        measure(tmp_path, kept=5)


def test_tests_of_the_mirror_come_first_then_those_of_the_package_then_the_fastest() -> None:
    order = ["a/test_sizes.py::t", "a/test_slow.py::t", "b/test_fast.py::t", "b/test_others.py::t"]
    seconds = dict(zip(order, (3.0, 4.0, 1.0, 2.0), strict=True))
    lines = reached.Lines({("/a/sizes.py", 7): set(seconds)}, seconds)
    assert lines.tests("/a/sizes.py", 6, 7) == order
