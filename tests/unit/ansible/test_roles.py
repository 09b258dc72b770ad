"""Requirements of every role."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.documents import roles

ANSIBLE = Path(__file__).resolve().parents[3] / "ansible"
ROLES = sorted(path.name for path in (ANSIBLE / "roles").iterdir() if path.is_dir())


def load(role: str, name: str) -> Any:
    return yaml.safe_load((ANSIBLE / "roles" / role / name).read_text(encoding="utf-8"))


def test_roles_exist():
    assert "preflight" in ROLES


@pytest.mark.parametrize("role", ROLES)
def test_defaults_and_readme_table_match_the_argument_specs(role):
    """`make docs` writes both."""
    folder = ANSIBLE / "roles" / role
    assert (folder / "defaults/main.yml").read_text(encoding="utf-8") == roles.defaults(role)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert roles.table(role) in readme
    assert roles.page(role, readme) == readme


@pytest.mark.parametrize("role", ROLES)
def test_variables_start_with_the_name_of_the_role_and_are_described(role):
    options = load(role, "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    readme = (ANSIBLE / "roles" / role / "README.md").read_text(encoding="utf-8")
    for name, option in options.items():
        assert name.startswith(f"{role}_") and not name.startswith(f"{role}__")
        assert option["description"]
        assert f"`{name}`" in readme


@pytest.mark.parametrize("role", ROLES)
def test_no_task_ignores_errors_and_no_lint_rule_is_skipped(role):
    for path in (ANSIBLE / "roles" / role).rglob("*.yml"):
        text = path.read_text(encoding="utf-8")
        assert "ignore_errors" not in text
        assert "noqa" not in text


def test_playbooks_import_only_what_exists():
    for path in (ANSIBLE / "playbooks").glob("*.yml"):
        for play in yaml.safe_load(path.read_text(encoding="utf-8")):
            if "ansible.builtin.import_playbook" in play:
                assert (path.parent / play["ansible.builtin.import_playbook"]).is_file()
            for role in play.get("roles", ()):
                assert role["role"] in {f"gpufleet.rack.{name}" for name in ROLES}


def after_set_filters(text: str) -> list[str]:
    """What follows each of Ansible's set filters in a file, up to the end of its expression."""
    parts = re.split(r"\| *(?:intersect|difference|union|symmetric_difference)\(", " ".join(text.split()))[1:]
    rest = []
    for part in parts:
        depth, end = 1, 0
        while depth:
            depth += {"(": 1, ")": -1}.get(part[end], 0)
            end += 1
        rest.append(part[end:].strip())
    return rest


def test_no_host_is_picked_from_a_set():
    """Set filters go through Python's sets: their order, and so the first of them, changes with every run."""
    assert after_set_filters("{{ a | difference(b(c)) | first }}") == ["| first }}"]
    found = 0
    for path in sorted(ANSIBLE.rglob("*.yml")) + sorted(ANSIBLE.rglob("*.j2")):
        rest = after_set_filters(path.read_text(encoding="utf-8"))
        assert [words for words in rest if not words.startswith("| length")] == [], path
        found += len(rest)
    assert found > 0
