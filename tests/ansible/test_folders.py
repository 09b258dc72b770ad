"""ansible-lint and ansible-playbook, from the root of the checkout as from ansible/."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpufleet.racks.configure.vault import write_vault
from tests.ansible.test_collection import GROUPS
from tests.conftest import ROOT

FOLDERS = {".": "ansible/", "ansible": ""}
# Playbooks of tests that fail on purpose, and what a checkout has besides.
PARTS = (
    *("ansible.cfg", ".ansible-lint", "ansible/ansible.cfg", "ansible/galaxy.yml", "ansible/CHANGELOG.md"),
    "tests/unit/racks/configure/strategy",
)


def run(folder: Path, home: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHONPATH"))
    }
    env |= {"ANSIBLE_HOME": str(home), "NO_COLOR": "1", "ANSIBLE_PYTHON_INTERPRETER": sys.executable}
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.parametrize("folder", FOLDERS)
def test_playbooks_find_roles_and_modules_from_either_folder(folder: str, tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text(GROUPS)
    inventory = ("-i", str(tmp_path / "hosts.yaml"))
    playbooks = f"{FOLDERS[folder]}playbooks"
    checked = run(
        ROOT / folder, tmp_path, "ansible-playbook", *inventory, "--syntax-check", f"{playbooks}/site.yml"
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    measured = run(
        ROOT / folder, tmp_path, "ansible-playbook", *inventory, "--check", f"{playbooks}/preflight.yml"
    )
    assert measured.returncode == 0, measured.stdout + measured.stderr
    assert "failed=0" in measured.stdout and "here" in measured.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small checkout: one role, playbooks of tests, and the vault file of an environment."""
    root = tmp_path_factory.mktemp("checkout")
    for part in (*PARTS, "ansible/roles/munge", "ansible/meta", "ansible/plugins"):
        source, target = ROOT / part, root / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copyfile(source, target)
    collections = root / "gpufleet/collections/ansible_collections/gpufleet"
    collections.mkdir(parents=True)
    (collections / "rack").symlink_to(root / "ansible")
    (root / "stacks/prod").mkdir(parents=True)
    write_vault(root / "stacks/prod/secrets.yml", "a-password", {"GPUFLEET_SECRET_MUNGE_KEY_LAB": "x" * 64})
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


@pytest.mark.parametrize("folder", FOLDERS)
def test_lint_finds_nothing_from_either_folder(folder: str, checkout: Path, tmp_path: Path) -> None:
    done = run(checkout / folder, tmp_path, "ansible-lint", "--offline", "-q")
    assert done.returncode == 0, done.stdout + done.stderr


def test_lint_in_the_root_reads_the_roles(checkout: Path, tmp_path: Path) -> None:
    tasks = checkout / "ansible/roles/munge/tasks/main.yml"
    text = tasks.read_text()
    tasks.write_text(text + "\n- ansible.builtin.command: date\n")
    try:
        done = run(checkout, tmp_path, "ansible-lint", "--offline", "-q")
    finally:
        tasks.write_text(text)
    assert done.returncode == 2 and "name[missing]" in done.stdout, done.stdout + done.stderr
