"""The direction in which the parts of gpufleet may import each other."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# package -> what it must never import, directly
FORBIDDEN = {
    "gpufleet/spec": {
        "pulumi",
        "boto3",
        "socket",
        "requests",
        "gpufleet.catalog",
        "gpufleet.checks",
        "gpufleet.plan",
        "gpufleet.components",
    },
    "gpufleet/catalog": {
        "pulumi",
        "gpufleet.spec",
        "gpufleet.checks",
        "gpufleet.plan",
        "gpufleet.components",
    },
    "gpufleet/checks": {"pulumi", "boto3", "socket", "gpufleet.engine", "gpufleet.components"},
    "gpufleet/plan": {
        "pulumi",
        "boto3",
        "socket",
        "gpufleet.checks",
        "gpufleet.engine",
        "gpufleet.components",
    },
    "gpufleet/engine": {
        "pulumi_aws",
        "pulumi_kubernetes",
        "gpufleet.components",
        "gpufleet.spec",
        "gpufleet.plan",
    },
    "gpufleet/report": {"pulumi", "boto3", "gpufleet.components"},
    "components": {"gpufleet.spec", "gpufleet.checks", "gpufleet.engine", "gpufleet.lab", "gpufleet.cli"},
}
CLOUD_PACKAGES = ("pulumi_aws", "pulumi_kubernetes")
MAY_IMPORT_PULUMI_AWS = ("components/", "stacks/", "tests/")


def _imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _matches(name: str, forbidden: str) -> bool:
    return name == forbidden or name.startswith(forbidden + ".")


@pytest.mark.parametrize("package", sorted(FORBIDDEN))
def test_a_package_does_not_import_what_stands_above_it(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files, f"{package} holds no Python files"
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files
        for name in _imports(path)
        for forbidden in FORBIDDEN[package]
        if _matches(name, forbidden)
    ]
    assert wrong == []


def test_only_components_and_stacks_import_the_cloud_packages() -> None:
    wrong = [
        str(path.relative_to(ROOT))
        for folder in ("gpufleet", "components", "stacks", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not str(path.relative_to(ROOT)).startswith(MAY_IMPORT_PULUMI_AWS)
        if any(_matches(name, cloud) for name in _imports(path) for cloud in CLOUD_PACKAGES)
    ]
    # the sandbox reads the properties of pulumi_aws' classes, lazily, to judge what a program sends
    assert [name for name in wrong if not name.startswith("gpufleet/lab/")] == []


@pytest.mark.parametrize(
    "module", ["gpufleet.spec.load", "gpufleet.catalog", "gpufleet.checks", "gpufleet.plan"]
)
def test_reading_checking_and_planning_load_neither_pulumi_nor_a_cloud_client(module: str) -> None:
    script = (
        f"import sys, {module}; "
        "heavy = {'pulumi', 'boto3', 'grpc', 'requests'}; "
        "print(sorted(name for name in sys.modules if name.split('.')[0] in heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"
