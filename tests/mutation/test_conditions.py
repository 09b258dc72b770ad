"""Conditions are changed one at a time, in the code that runs."""

from __future__ import annotations

import ast
import difflib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpufleet.policies.rules.security import _conditions
from tests.collected import ROOT
from tests.mutation import conditions
from tests.mutation.accepted import EQUIVALENT

pytestmark = pytest.mark.xdist_group("mutation")

SOURCE = """
LIMIT = 1 if True else 2

def limit(size: "int | None", names=()) -> bool:
    if not size or size < 3:
        raise ValueError(size + 1)
    return any(name in names for name in "ab" if name != "c")

class Box:
    def sides(self, a, b):
        return a * b if 0 <= a < b else a - b
"""


def changes(source: str) -> list[str]:
    """Each changed expression of the source, before and after."""
    tree = ast.parse(source)
    return [f"{ast.unparse(a)} -> {ast.unparse(b)}" for a, b in conditions.conditions_of(tree)]


def test_comparisons_operators_and_conditions_of_functions_are_changed() -> None:
    assert changes(SOURCE) == [
        "not size or size < 3 -> not size and size < 3",
        "not size or size < 3 -> size < 3",
        "not size or size < 3 -> not size",
        "not size or size < 3 -> True",
        "not size or size < 3 -> False",
        "not size -> size",
        "size < 3 -> size <= 3",
        "name in names -> name not in names",
        "name != 'c' -> name == 'c'",
        "name != 'c' -> True",
        "name != 'c' -> False",
        "0 <= a < b -> 0 < a < b",
        "0 <= a < b -> 0 <= a <= b",
        "0 <= a < b -> True",
        "0 <= a < b -> False",
        "a * b -> a / b",
        "a - b -> a + b",
    ]


def test_mutant_is_the_module_with_one_changed_expression() -> None:
    for mutant in conditions.all_mutants()[::97]:
        before, after = (ast.unparse(tree).splitlines() for tree in conditions.trees_of(mutant))
        changed = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
        assert 1 <= len(changed) <= 4, mutant.name


def test_functions_that_a_module_makes_on_import_are_changed_with_their_maker() -> None:
    before = "operator in EXACT | LIKE and pattern.fullmatch(value) is not None"
    (mutant,) = (
        each
        for each in conditions.all_mutants()
        if each.module == _conditions.__name__ and each.before == before and each.after.endswith("| LIKE")
    )
    accounts = _conditions.RESTRICTING["aws:sourceaccount"]
    functions = conditions._functions()
    changed = [found for each in functions.values() for found in each if found.__module__ == mutant.module]
    codes = [each.__code__ for each in changed]
    assert not accounts("stringequals", "any")
    try:
        conditions._install(mutant, functions)
        assert accounts("stringequals", "any")
    finally:
        for each, code in zip(changed, codes, strict=True):
            each.__code__ = code


def test_previews_that_judge_no_mutant_are_tests_of_security_rules() -> None:
    for name in conditions.PREVIEWS:
        file, _, test = name.partition("::")
        text = (ROOT / "tests/unit/policies/security" / file).read_text(encoding="utf-8")
        assert f"def {test}(" in text or not test, name


def test_every_test_of_the_packages_judges_mutants() -> None:
    files = {str(Path(each).relative_to(ROOT)) for each in conditions._files()}
    for package in ("plan", "checks", "pricing"):
        folder = ROOT / "tests" / "unit" / package
        assert {str(path.relative_to(ROOT)) for path in folder.glob("test_*.py")} < files, package
    assert "tests/unit/policies/security/test_kubernetes.py" in files
    assert not files & set(conditions._previews())


def test_every_equivalent_condition_is_a_mutant_with_a_reason() -> None:
    names = [each.plain for each in conditions.all_mutants()]
    for pattern, reason in EQUIVALENT.items():
        assert any(re.fullmatch(pattern, name) for name in names), pattern
        assert reason


def test_mutation_run_reports_whether_the_tests_find_the_mutant() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.mutation",
            "--conditions",
            "1",
            "--only",
            r"plan\.accelerators:\d+ scheduler == 'slurm' ->",
            "--tests",
            "tests/unit/plan/test_accelerators.py",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert re.match(r"test +gpufleet\.plan\.accelerators:\d+ scheduler == 'slurm' -> ", done.stdout), (
        done.stdout + done.stderr
    )
    assert done.stdout.splitlines()[-1] == "1 of 1 killed, or with a reason on record"
