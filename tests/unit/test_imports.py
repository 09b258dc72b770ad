"""The allowed imports between parts of gpufleet, from `.importlinter`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from tests.documents import packages

ROOT = Path(__file__).resolve().parents[2]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def test_import_contracts_pass() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copy(packages.CONTRACTS, folder)
    shutil.copytree(
        ROOT / "gpufleet", folder / "gpufleet", ignore=shutil.ignore_patterns("__pycache__", "*.json")
    )
    return folder


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("verdict/check.py", "from gpufleet.cli.console import out", "Nothing imports the command line"),
        ("spec/load.py", "from gpufleet.catalog import Catalog", "Importers of catalog"),
        ("plan/build.py", "import socket", "What decides opens no socket"),
        ("report/tables.py", "import boto3", "Reports import no cloud client"),
        ("engine/select.py", "import pulumi_aws", "Only components, the stack program and the lab import"),
        ("racks/runner.py", "from gpufleet.lab import rack", "Stand-ins are loaded through one place"),
        ("cli/run.py", "from gpufleet.lab.aws import daemon", "Stand-ins are loaded through one place"),
        ("spec/quantity.py", "from gpufleet.spec.load import load_fleet", "No packages import each other"),
    ],
)
def test_import_in_the_wrong_direction_breaks_a_contract(
    copy: Path, file: str, line: str, contract: str
) -> None:
    module = copy / "gpufleet" / file
    before = module.read_text(encoding="utf-8")
    module.write_text(f"{before}\n\ndef _wrong() -> None:\n    {line}\n", encoding="utf-8")
    try:
        done = lint(copy)
    finally:
        module.write_text(before, encoding="utf-8")
    assert done.returncode == 1
    broken = " ".join(done.stdout.partition("Broken contracts")[2].split())
    assert contract in broken, done.stdout


def test_every_package_has_a_contract() -> None:
    found = {file.parent.name for file in (ROOT / "gpufleet").glob("*/__init__.py")}
    assert found - packages.importers().keys() == set()


def test_no_contract_allows_an_unused_import() -> None:
    graph = grimp.build_graph("gpufleet", cache_dir=None)
    needed = {
        (importer.split(".")[1], module.split(".")[1])
        for module in graph.modules
        for importer in graph.find_modules_that_directly_import(module)
        if "." in module
    }
    allowed = {(name, imported) for imported, names in packages.importers().items() for name in names}
    assert allowed - needed == set()


def test_package_table_matches_the_contracts() -> None:
    text = packages.PAGE.read_text(encoding="utf-8")
    assert text == packages.page(text), "run `make docs`"


@pytest.mark.parametrize(
    "module", ["gpufleet.spec.load", "gpufleet.catalog", "gpufleet.checks", "gpufleet.plan"]
)
def test_reading_checking_and_planning_load_no_pulumi_and_no_cloud_client(module: str) -> None:
    script = (
        f"import sys, {module}; "
        "heavy = {'pulumi', 'boto3', 'grpc', 'requests'}; "
        "print(sorted(name for name in sys.modules if name.split('.')[0] in heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def test_a_plan_beside_the_state_of_a_stack_loads_no_pulumi(tmp_path: Path) -> None:
    (tmp_path / "stacks").mkdir()
    shutil.copytree(ROOT / "stacks" / "sandbox", tmp_path / "stacks" / "sandbox")
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    (tmp_path / ".gpufleet" / "state" / "sandbox").mkdir(parents=True)
    script = (
        "import sys; from gpufleet.cli.main import main; sys.argv[1:] = ['plan', 'sandbox', '--json']; "
        "code = main(); print(code, sorted({'pulumi', 'boto3', 'grpc'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stderr.splitlines()[-1] == "0 []"


@pytest.mark.parametrize("package", ["comment", "notices"])
def test_package_that_runs_alone_needs_no_library_when_it_is_imported(package: str) -> None:
    """`comment` in a job without installed packages, `notices` on an image that has boto3."""
    modules = sorted(
        f"gpufleet.{package}.{path.stem}"
        for path in (ROOT / "gpufleet" / package).glob("*.py")
        if path.name not in ("__init__.py", "__main__.py")
    )
    allowed = ["boto3", "botocore"] if package == "notices" else []
    code = f"""
import importlib, sys, types
sys.path.insert(0, {str(ROOT)!r})
class Absent(types.ModuleType):
    __path__ = []
    def __getattr__(self, name): return type(name, (Exception,), {{}})
for name in {allowed}:
    for part in ("", ".config", ".exceptions"): sys.modules[name + part] = Absent(name + part)
for name in {modules}: importlib.import_module(name)
"""
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
