"""Finding the rules of a checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpufleet.policy.pack import load_rules

ROOT = Path(__file__).resolve().parents[3]
RULE = """
from gpufleet.policy.rule import Example, Violation, resource_rule

@resource_rule(
    "nothing-named-x", group="security", title="No x", why="No x.", fix="Name it y.", severity="low",
    types=("aws:kms/key:Key",), passes=Example(()), fails=Example(()),
)
def nothing_named_x(resource, context):
    if resource.name == "x":
        yield Violation("it is named x", "name it y")
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one rule."""
    rules = tmp_path / "policies" / "rules" / "security"
    rules.mkdir(parents=True)
    for folder in (rules, rules.parent, rules.parent.parent):
        (folder / "__init__.py").touch()
    (rules / "nothing_named_x.py").write_text(RULE, encoding="utf-8")
    return tmp_path


def loaded(checkout: Path) -> subprocess.CompletedProcess[str]:
    """`load_rules` in a separate process: modules of one name are imported once per process."""
    program = (
        "import sys; from pathlib import Path\n"
        "from gpufleet.errors import GpufleetError\n"
        "from gpufleet.policy.pack import load_rules\n"
        "try: print(*[rule.name for rule in load_rules(Path(sys.argv[1]))])\n"
        "except GpufleetError as error: print(f'{error.message} | {error.remedy}'); sys.exit(2)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program, str(checkout)],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_rules_are_sorted_by_group_and_name_without_duplicates() -> None:
    rules = load_rules(ROOT)
    assert [(each.group, each.name) for each in rules] == sorted((each.group, each.name) for each in rules)
    assert len({each.name for each in rules}) == len(rules) > 0


def test_rule_file_has_the_name_of_its_rule_and_group() -> None:
    for rule in load_rules(ROOT):
        folder, name = rule.group.replace("-", "_"), rule.name.replace("-", "_")
        assert (ROOT / "policies" / "rules" / folder / f"{name}.py").is_file(), rule.name


def test_modules_with_an_underscore_are_not_rules(checkout: Path) -> None:
    (checkout / "policies/rules/security/_helper.py").write_text("ANYTHING = 1\n")
    done = loaded(checkout)
    assert (done.returncode, done.stdout.strip()) == (0, "nothing-named-x"), done.stderr


def test_repository_without_rules_uses_those_of_gpufleet(tmp_path: Path) -> None:
    done = loaded(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [rule.name for rule in load_rules(ROOT)]


def test_module_without_a_rule_is_an_error_that_names_it(checkout: Path) -> None:
    (checkout / "policies/rules/security/empty.py").write_text("ANYTHING = 1\n")
    done = loaded(checkout)
    assert done.returncode == 2
    assert "policies.rules.security.empty has 0 rules" in done.stdout


def test_duplicate_rule_name_is_an_error(checkout: Path) -> None:
    (checkout / "policies/rules/security/again.py").write_text(RULE, encoding="utf-8")
    done = loaded(checkout)
    assert done.returncode == 2
    assert "two rules are named nothing-named-x" in done.stdout
