"""Playbooks of tests run in forks of a process that has imported Ansible, as ansible-playbook runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpufleet.racks.configure.transport import transport_environment
from gpufleet.racks.runner import PlaybookRun, run_playbook
from tests import warm_ansible

PLAY = """
- name: Test
  hosts: all
  gather_facts: false
  tasks:
    - name: Say what the process is
      ansible.builtin.debug:
        msg: "{{ lookup('env', 'SAID') }} {{ lookup('pipe', program) }}"
      vars: # the parent of the worker that asks
        program: ps -o comm= -p $(ps -o ppid= -p $PPID)
    - name: Ask the host
      ansible.builtin.command: cat named
      args:
        chdir: "{{ playbook_dir }}"
      changed_when: false
    - name: Fail
      ansible.builtin.fail:
        msg: no
      when: lookup('ansible.builtin.env', 'SAID') == 'fail'
"""
HERE = (
    f"all: {{hosts: {{h1: {{ansible_connection: local, ansible_python_interpreter: {sys.executable}}}}}}}\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "inventory.yml").write_text(HERE)
    (tmp_path / "ansible.cfg").write_text("[defaults]\n")
    (tmp_path / "named").write_text("the file\n")
    return tmp_path


def played(project: Path, reported: str, **more: str) -> tuple[dict, list[str], str]:
    """The counts of the host, the kinds of its results in order, and what the first task says."""
    events = []
    environment = {"SAID": reported, "ANSIBLE_HOME": str(project / "home"), **more}
    run = PlaybookRun(project, "play.yml", project / "inventory.yml", environment=environment)
    result = run_playbook(run, events.append)
    first = next((event.notice for event in events if event.notice), "")
    return dict(result.hosts), [f"{event.task} {event.kind}" for event in events], first


def test_fork_runs_a_playbook_as_the_program_does(project: Path) -> None:
    mitogen = transport_environment("mitogen")
    plain = {reported: played(project, reported, **mitogen) for reported in ("yes", "fail")}
    assert plain["fail"][0]["h1"].failed and not plain["yes"][0]["h1"].failed
    for reported in ("yes", "fail", "yes"):
        found = played(project, reported, **mitogen, **warm_ansible.environment())
        assert found[:2] == plain[reported][:2]
        assert found[2] == f"{reported} gpufleet-test-a"
        assert plain[reported][2] == f"{reported} ansible-playboo"


def test_changed_configuration_is_read(project: Path) -> None:
    (project / "play.yml").write_text(PLAY.replace("'env', 'SAID'", "'config', 'DEFAULT_FORKS'", 1))
    for forks in ("7", "8"):
        (project / "ansible.cfg").write_text(f"[defaults]\nforks = {forks}\n")
        reported = [played(project, "x", **warm_ansible.environment())[2] for _ in range(2)]
        assert {each.split()[0] for each in reported} == {forks}


def test_program_itself_runs_without_the_server(project: Path) -> None:
    nobody = {warm_ansible.VARIABLE: "gpufleet-test-nobody"}
    assert played(project, "yes", **nobody)[2] == "yes ansible-playboo"


def test_exit_code_and_output_are_those_of_the_program(project: Path) -> None:
    path = os.pathsep.join((str(warm_ansible.CLIENTS), str(Path(sys.executable).parent), os.environ["PATH"]))
    for words in (["--version"], ["nothing.yml"], ["--nonsense"]):
        env = {**os.environ, **warm_ansible.environment(), "ANSIBLE_HOME": str(project / "home")}
        answers = [
            subprocess.run(
                ["ansible-playbook", *words],
                env={**env, "PATH": chosen},
                cwd=project,
                capture_output=True,
                text=True,
                timeout=300,
            )
            for chosen in (path, path.partition(os.pathsep)[2])
        ]
        first, second = ((each.returncode, each.stdout, each.stderr) for each in answers)
        assert first == second
