"""The collection as users get it: built, installed by ansible-galaxy, with playbooks run by full name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

PLAYBOOKS = sorted(path.stem for path in (ROOT / "ansible" / "playbooks").glob("*.yml"))
GROUPS = "all: {hosts: {here: {ansible_connection: local}}, children: {onprem: {hosts: {here: {}}}}}\n"


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed collection and an inventory of this machine."""
    folder = tmp_path_factory.mktemp("elsewhere")
    run(folder, "ansible-galaxy", "collection", "build", str(ROOT / "ansible"), "--output-path", str(folder))
    (archive,) = folder.glob("gpufleet-rack-*.tar.gz")
    run(
        folder,
        "ansible-galaxy",
        "collection",
        "install",
        "--offline",
        str(archive),
        "-p",
        str(folder / "found"),
    )
    (folder / "hosts.yaml").write_text(GROUPS)
    return folder


def run(folder: Path, program: str, *arguments: str) -> str:
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHONPATH"))
    }
    env |= {
        "ANSIBLE_COLLECTIONS_PATH": str(folder / "found"),
        "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_LOCALHOST_WARNING": "False",
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
    }
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("how", ["--syntax-check", "--list-tasks"])
def test_every_playbook_is_found_by_its_full_name(elsewhere: Path, how: str) -> None:
    names = [f"gpufleet.rack.{name}" for name in PLAYBOOKS]
    reported = run(elsewhere, "ansible-playbook", "-i", "hosts.yaml", how, *names)
    installed = elsewhere / "found" / "ansible_collections" / "gpufleet" / "rack" / "playbooks"
    for name in PLAYBOOKS:
        assert f"playbook: {installed / name}.yml" in reported


def test_a_playbook_measures_this_machine_in_check_mode(elsewhere: Path) -> None:
    reported = run(elsewhere, "ansible-playbook", "-i", "hosts.yaml", "--check", "gpufleet.rack.preflight")
    assert "here" in reported
    assert "failed=0" in reported


def test_archive_has_the_collection_and_no_settings(elsewhere: Path) -> None:
    root = elsewhere / "found" / "ansible_collections" / "gpufleet" / "rack"
    assert (root / "roles" / "base" / "tasks" / "main.yml").is_file()
    assert (root / "plugins" / "modules" / "files.py").is_file()
    assert not (root / "ansible.cfg").exists()
