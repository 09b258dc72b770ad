"""The role of the program: installed files and documentation match it."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from health.config import Config
from health.finding import ACTIONS

from .conftest import FILES, Node

ROLE = FILES.parent


def load(name: str) -> Any:
    return yaml.safe_load((ROLE / name).read_text())


def test_every_file_of_the_program_is_installed() -> None:
    installed = {item["source"] for item in load("vars/main.yml")["health_check__programs"]}
    there = {
        str(path.relative_to(FILES)) for path in FILES.rglob("*") if path.is_file() and path.suffix != ".pyc"
    }
    assert installed == there


def test_configuration_has_exactly_the_settings_of_the_program() -> None:
    settings = set(load("vars/main.yml")["health_check__config"])
    assert settings == {item.name for item in fields(Config)} - {"root"}


def test_program_defaults_equal_the_role_defaults() -> None:
    defaults = load("defaults/main.yml")
    for item in fields(Config):
        name = f"health_check_{item.name}"
        if name in defaults and item.name not in ("xid_actions", "xid_overrides"):
            own = item.default if item.default_factory is not dict else {}
            assert (list(own) if isinstance(own, tuple) else own) == defaults[name], name


def test_readme_lists_every_check_with_its_action() -> None:
    text = (ROLE / "README.md").read_text()
    for check, action in ACTIONS.items():
        assert f"| `{check}` | {action} |" in text


def test_no_xid_has_two_actions_in_one_map() -> None:
    defaults = load("defaults/main.yml")
    for mapping in (defaults["health_check_xid_actions"], *defaults["health_check_xid_overrides"].values()):
        numbers = [number for each in mapping.values() for number in each]
        assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("path", sorted(FILES.rglob("*.py")), ids=lambda path: path.name)
def test_program_runs_on_python_3_10_with_the_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 10))
    for statement in ast.walk(tree):
        names = []
        if isinstance(statement, ast.Import):
            names = [item.name for item in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            names = [statement.module or ""]
        for name in names:
            top = name.partition(".")[0]
            assert top in sys.stdlib_module_names or top in ("health", "__future__")


def test_prometheus_accepts_the_metrics(node: Node) -> None:
    node.xid(79, gpu=5)
    node.port(2, rate="200 Gb/sec (4X HDR)")
    node.run()
    node.run()
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=node.metrics, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "gpufleet_health_healthy 0" in node.metrics
    assert 'gpufleet_health_findings{check="xid",action="drain"} 1' in node.metrics
    assert 'gpufleet_health_findings{check="ecc",action="drain"} 0' in node.metrics
    assert 'gpufleet_health_xids{xid="79",action="REBOOT"} 1' in node.metrics


@pytest.mark.parametrize("name", ["prolog", "epilog"])
def test_shellcheck_accepts_the_wrappers(name: str) -> None:
    subprocess.run([Path(sys.executable).parent / "shellcheck", FILES / name], check=True)
    assert f"health-check {name}" in (FILES / name).read_text()


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    for template in (ROLE / "templates").iterdir():
        text = template.read_text().replace("{{ health_check__folder }}/health-check", "/bin/true")
        text = text.replace("{{ health_check_interval_s }}", "300")
        assert "{{" not in text
        (tmp_path / template.stem).write_text(text)
    units = [str(path) for path in sorted(tmp_path.iterdir())]
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "gpufleet" not in done.stderr
