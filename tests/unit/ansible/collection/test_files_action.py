"""The action part of `gpufleet.rack.files`: a real play on this machine."""

from __future__ import annotations

import getpass
import grp
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.unit.ansible.collection.conftest import COLLECTIONS

PLAY = """\
- name: Files of a role
  hosts: localhost
  connection: local
  gather_facts: false
  roles: [sample]
"""


@pytest.fixture
def role(tmp_path: Path) -> Path:
    """A role with a template that includes another, and a file with braces of its own."""
    folder = tmp_path / "roles" / "sample"
    for part in ("tasks", "templates", "files", "vars"):
        (folder / part).mkdir(parents=True)
    (folder / "templates/outer.j2").write_text("{% include 'inner.j2' %}\npath \\d+ {{ sample__deep }}\n")
    (folder / "templates/inner.j2").write_text("{% for n in [1, 2] %}\nline {{ n }}\n{% endfor %}")
    (folder / "files/raw").write_text("{{ not a template }} \\n\n")
    (folder / "vars/main.yml").write_text(
        'sample__deep: "{{ sample__base }}-x"\nsample__base: "{{ 40 + 2 }}"\n'
    )
    (tmp_path / "play.yml").write_text(PLAY)
    return folder


def play(role: Path, files: list[dict[str, object]], *words: str, no_log: bool = False) -> str:
    """Output of a play with one task."""
    me = {"owner": getpass.getuser(), "group": grp.getgrgid(os.getgid()).gr_name}
    task = {
        "name": "Write",
        "gpufleet.rack.files": {"files": [me | item for item in files]},
        "no_log": no_log,
    }
    (role / "tasks/main.yml").write_text(yaml.safe_dump([task]))
    root = role.parents[1]
    environment = os.environ | {
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_HOME": str(root / "home"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }
    program = Path(sys.executable).with_name("ansible-playbook")
    command = [str(program), "-i", "localhost,", "-e", f"ansible_python_interpreter={sys.executable}", *words]
    done = subprocess.run(
        [*command, str(root / "play.yml")], env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_templates_files_and_conditions_work_in_one_task(role: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    files: list[dict[str, object]] = [
        {"path": str(out / "a"), "template": "outer.j2"},
        {"path": str(out / "b"), "source": "raw", "mode": "0755"},
        {"path": str(out / "c"), "content": "{{ sample__deep }}\n", "when": "{{ 1 == 2 }}"},
        {"path": str(out / "d"), "content": "{{ sample__deep }}\n", "when": "{{ 1 == 1 }}"},
        {"path": str(out / "e"), "shared": "mig.py"},
    ]
    predicted = play(role, files, "--check", "--diff")
    assert "changed=1" in predicted and "+line 1" in predicted and not out.exists()
    assert "changed=1" in play(role, files)
    assert (out / "a").read_text() == "line 1\nline 2\npath \\d+ 42-x\n"
    assert (out / "b").read_text() == "{{ not a template }} \\n\n"
    assert (out / "d").read_text() == "42-x\n"
    assert (out / "e").read_text().startswith("#!/usr/bin/python3\n")
    assert not (out / "c").exists()
    assert "changed=0" in play(role, files)


def test_secret_is_shown_at_no_verbosity_and_in_no_diff(role: Path, tmp_path: Path) -> None:
    files: list[dict[str, object]] = [
        {"path": str(tmp_path / "key"), "content": "planted-secret", "mode": "0400", "secret": True}
    ]
    reported = play(role, files, "-vvv", "--diff", no_log=True)
    assert "changed=1" in reported and (tmp_path / "key").read_text() == "planted-secret"
    assert "planted-secret" not in reported


def test_missing_role_file_is_named(role: Path, tmp_path: Path) -> None:
    for item in ({"template": "none.j2"}, {"source": "none"}):
        reported = play(role, [{"path": str(tmp_path / "x"), **item}])
        assert "failed=1" in reported and "is not in the role's" in reported
    assert not (tmp_path / "x").exists()
