"""`gpufleet verify` as a process, on hosts that are this machine, with test measurements."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, make_checkout

PLAY = """---
- name: Measure the cluster's key
  hosts: {group}
  gather_facts: false
  tasks:
    - name: Measure munge
      ansible.builtin.import_role:
        name: munge
        tasks_from: verify
"""
TASKS = """---
- name: Measure munge
  gpufleet.rack.measure:
    commands:
      munge_service: [/bin/echo, "{{{{ 'inactive' if inventory_hostname in {stopped} else 'active' }}}}"]
      munge_round_trip: [/bin/echo, success]
      munge_key_mode: [/bin/echo, munge 400]
"""


class Rack:
    """A checkout whose verify.yml measures one role, and the command line as a process."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.checkout = make_checkout(folder)
        self.env = os.environ | self.checkout.env
        self.env |= {"PYTHONPATH": str(ROOT), "ANSIBLE_HOME": str(folder / "ansible-home")}
        (folder / "home").mkdir()
        self.measure()

    def measure(self, stopped: tuple[str, ...] = (), group: str = "onprem") -> None:
        ansible = self.root / "ansible"
        (ansible / "playbooks" / "verify.yml").write_text(PLAY.format(group=group))
        (ansible / "roles" / "munge" / "tasks" / "verify.yml").write_text(TASKS.format(stopped=list(stopped)))

    def run(self, *arguments: str, away: str = "") -> subprocess.CompletedProcess[str]:
        module = "tests.unit.cli.configure_local"
        return subprocess.run(
            [sys.executable, "-m", module, "verify", "sandbox", "--transport", "ssh", *arguments],
            cwd=self.root,
            env=self.env | {"TEST_AWAY": away},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def json(self, *arguments: str, code: int = 0, **options: Any) -> Any:
        done = self.run(*arguments, "--json", **options)
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Rack:
    return Rack(tmp_path_factory.mktemp("verify"))


def test_healthy_site_passes_without_secrets_and_changes(rack: Rack) -> None:
    rack.measure()
    reported = rack.json()
    assert reported["findings"] == []
    assert reported["lost_hosts"] == []
    assert all(counts == {"pass": 3, "warn": 0, "fail": 0} for counts in reported["hosts"].values())
    assert not list((rack.root / ".gpufleet" / "configure" / "sandbox").glob("last.json"))


def test_fault_is_shown_and_exits_1(rack: Rack) -> None:
    rack.measure(stopped=("dgx02",))
    done = rack.run()
    assert done.returncode == 1, done.stderr
    assert "fail dgx02: munge: service: munge is inactive" in done.stdout
    assert "fix: systemctl status munge" in done.stdout
    reported = rack.json("--output", "said.json", code=1)
    assert [(item["host"], item["check"]) for item in reported["findings"]] == [("dgx02", "service")]
    assert json.loads((rack.root / "said.json").read_text()) == reported
    assert rack.json("--limit", "dgx01")["findings"] == []


def test_unreachable_host_exits_4_and_the_others_are_judged(rack: Rack) -> None:
    rack.measure()
    known = rack.root / "stacks" / "sandbox" / "known_hosts"
    known.write_text(
        "[127.0.0.1]:1 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGxvY2FsbG9jYWxsb2NhbGxvY2FsbG9jYWxsb2NhbGxv\n"
    )
    reported = rack.json(away="dgx02", code=4)
    assert reported["lost_hosts"] == ["dgx02"]
    assert [(item["host"], item["check"]) for item in reported["findings"]] == [("dgx02", "reached")]
    assert reported["hosts"]["dgx01"]["pass"] == 3


def test_role_that_is_no_longer_measured_is_reported(rack: Rack) -> None:
    rack.measure()
    tasks = rack.root / "ansible" / "roles" / "munge" / "tasks" / "verify.yml"
    tasks.write_text(tasks.read_text().replace("      munge_key_mode: [/bin/echo, munge 400]\n", ""))
    reported = rack.json("--limit", "dgx01", code=1)
    assert [item["message"] for item in reported["findings"]] == [
        "was not measured: it is missing in the role's measurements"
    ]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("--limit", "nobody"), "no rack host matches 'nobody'"),
        (("--site", "moon"), "has no rack site 'moon'"),
        (("--transport", "pigeon"), "transport 'pigeon' is not one of"),
    ],
)
def test_bad_input_exits_2_with_a_remedy(rack: Rack, arguments: tuple[str, ...], shown: str) -> None:
    done = rack.run(*arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert shown in done.stderr
    assert "Traceback" not in done.stderr
