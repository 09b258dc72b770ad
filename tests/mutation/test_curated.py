"""Weakened protections of the components, one property at a time, are each found by a rule."""

from __future__ import annotations

import ast
import difflib
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.collected import ROOT
from tests.mutation.accepted import ACCEPTED
from tests.mutation.curated import CURATED
from tests.mutation.operators import mutated
from tests.mutation.protective import NAMES
from tests.mutation.run import all_mutants, failed_tests, judges_of, path_of

pytestmark = pytest.mark.xdist_group("mutation")


@pytest.fixture(scope="module")
def killers() -> Mapping[str, str]:
    """Mutant -> its killer, from one run over the whole list in its own process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutation", "--curated", "--rules-only"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    found = re.findall(r"^(rule|program|test|nothing) +(\S+):\d+ (.*)  \[", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    # Of two places with the same name, the worse outcome counts.
    worst: dict[str, str] = {}
    for by, module, what in sorted(found, key=lambda each: each[0] != "rule"):
        worst[f"{module} {what}"] = by
    return worst


@pytest.mark.parametrize("name", CURATED)
def test_a_weakened_property_breaks_a_rule(name: str, killers: Mapping[str, str]) -> None:
    assert name in killers, "no such mutant: the component has changed, and so must the list"
    assert killers[name] == "rule"


def test_mutant_is_the_module_with_one_removed_protection() -> None:
    mutants = [each for each in all_mutants() if each.plain in CURATED]
    assert len(mutants) >= len(CURATED)
    for mutant in mutants:
        path = path_of(mutant.module)
        before = ast.unparse(ast.parse(path.read_text(encoding="utf-8"))).splitlines()
        after = ast.unparse(mutated(mutant, path)).splitlines()
        changed = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
        assert 1 <= len(changed) <= 12, mutant.name


@pytest.mark.fresh
def test_every_protective_name_is_in_the_program() -> None:
    assert NAMES - {each.subject for each in all_mutants()} == set()


def test_every_module_of_the_program_is_judged_by_tests() -> None:
    assert [name for name in {each.module for each in all_mutants()} if not judges_of(name)] == []


def test_run_that_pytest_ends_before_a_test_fails_is_no_survivor(tmp_path: Path) -> None:
    path = tmp_path / "test_nothing.py"
    path.write_text("", encoding="utf-8")
    with pytest.raises(RuntimeError, match="NO_TESTS_COLLECTED"):
        failed_tests([str(path)])


def test_every_accepted_survivor_is_a_mutant_with_a_reason() -> None:
    names = [each.plain for each in all_mutants()]
    for pattern, reason in ACCEPTED.items():
        assert any(re.fullmatch(pattern, name) for name in names), pattern
        assert reason
