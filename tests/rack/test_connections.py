"""Connections of Ansible to a rack's hosts, and their leftovers on this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.rack.lab import Lab, fleet_text
from tests.rack.roles.proof import PlayResult, play

TASKS = [
    {"name": "Say who runs", "ansible.builtin.command": "ps -eo user,args"},
    {"name": "Say who logs in", "ansible.builtin.command": "id -un", "become": False},
    {"name": "Say who comes back", "ansible.builtin.command": "id -un"},
]
# sshd is away for two seconds, as just after a boot, when a task needs a connection of its own.
STOP = "sh -c \"systemctl stop ssh; systemd-run --quiet sh -c 'sleep 2; systemctl start ssh'\""
REFUSED = [{"name": "Refuse connections", "ansible.builtin.command": STOP}, TASKS[1]]


def test_host_uses_one_root_interpreter_and_no_connection_is_left_open(
    can_hold_racks: None, tmp_path: Path
) -> None:
    lab = Lab.up(tmp_path, fleet_text(gpu_nodes=1, controllers=1, login=False))
    try:
        everything, *names = answers(lab, tmp_path, "mitogen")
        interpreters = [line.split()[0] for line in everything.splitlines() if "(mitogen:" in line]
        # None of the user who logs in, from which sudo would start root's.
        assert set(interpreters) == {"root"}
        assert names == answers(lab, tmp_path, "ssh")[1:] == ["ubuntu", "root"]
        played_tasks(lab, tmp_path, "mitogen", REFUSED)
        lab.run("playbooks/preflight.yml", transport="ssh")
        masters = ssh_masters(lab)
        sudo_asks_for_a_password(lab)
    finally:
        lab.down()
    assert ssh_masters(lab) == []
    assert not lab.rack.record.control_paths.exists()
    assert all(str(lab.rack.record.control_paths) in line for line in masters)


def played_tasks(lab: Lab, folder: Path, transport: str, tasks: list[dict[str, Any]]) -> PlayResult:
    """Tasks for a node, over a transport."""
    book = folder / "tasks.yml"
    plays = [{"hosts": "dgx01", "gather_facts": False, "become": True, "tasks": tasks}]
    book.write_text(yaml.safe_dump(plays))
    played = play(lab, str(book), transport=transport)
    assert not played.result.failures, played.messages()
    return played


def answers(lab: Lab, folder: Path, transport: str) -> list[str]:
    """Results of the tasks above for a node, over a transport."""
    played = played_tasks(lab, folder, transport, TASKS)
    return [str(played.of(str(task["name"]), "dgx01")[0].result["stdout"]) for task in TASKS]


def sudo_asks_for_a_password(lab: Lab) -> None:
    """The host reports it without changes, instead of a question without an answer."""
    lab.sh("dgx01", "sed -i s/NOPASSWD:// /etc/sudoers.d/rack")
    played = play(lab, "playbooks/base.yml", "dgx01", check=True)
    assert "a password is required" in played.messages()


def ssh_masters(lab: Lab) -> list[str]:
    """The ssh processes of this machine with the rack's configuration."""
    reported = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in reported.splitlines() if lab.rack.record.runtime in line and "ssh" in line]
