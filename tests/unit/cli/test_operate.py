"""`gpufleet operate`: refusals before a host is contacted, and resumed runs."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpufleet.cli.operate_setup import OperateSetup
from gpufleet.errors import CloudError, RefusedError
from gpufleet.racks.configure import host_keys
from gpufleet.racks.configure.host_keys import forget_keys, renew_key
from gpufleet.racks.configure.record import HostState, LastRun
from gpufleet.racks.operations.registry import OPERATIONS
from tests.conftest import ROOT, make_checkout
from tests.unit.cli.conftest import Gpufleet

PLAY = """---
- name: Test
  hosts: rack_gpu_nodes
  gather_facts: false
  tasks:
    - name: Fail where the test says so
      ansible.builtin.assert:
        that: inventory_hostname != lookup('ansible.builtin.env', 'TEST_FAIL')
        fail_msg: the test says so
    - name: Leave out whom the test says
      ansible.builtin.meta: end_host
      when: inventory_hostname == lookup('ansible.builtin.env', 'TEST_LEAVE')
    - name: Write a file
      ansible.builtin.copy:
        content: >
          {{{{ operation }}}} {{{{ operation_watts }}}} {{{{ operation_targets | join(' ') }}}}
          {{{{ operation_id }}}} {{{{ operation_resumed }}}}
        dest: "{folder}/out-{{{{ inventory_hostname }}}}"
        mode: "0644"
    - name: Note that the node is done
      ansible.builtin.set_fact:
        operation_done: true
"""


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "operate needs an environment and an operation"),
        (("sandbox",), 2, "operate needs an environment and an operation"),
        (("sandbox", "power-cap"), 2, "there is no operation 'power-cap'"),
        (("sandbox", "power_cap"), 2, "power_cap needs option watts"),
        (("sandbox", "power_cap", "-o", "watts=9999"), 2, "a whole number from 0 to 5000"),
        (
            ("sandbox", "power_cap", "-o", "watts=1", "--limit", "ctl01"),
            2,
            "power_cap does not support ctl01",
        ),
        (("sandbox", "upgrade_kubernetes"), 2, "sandbox has no host for upgrade_kubernetes"),
        (("sandbox", "power_cap", "-o", "watts=1", "--site", "x"), 2, "no rack site 'x'"),
        (("sandbox", "power_cap", "--resume"), 2, "has no power_cap to resume"),
        (("sandbox", "replace_node"), 2, "replace_node without --limit would run on all nodes"),
        (
            ("sandbox", "decommission", "--limit", "dgx01", "-o", "confirm=dgx02", "--yes"),
            2,
            "confirm=dgx02 does not match the targets dgx01",
        ),
        (
            ("sandbox", "upgrade_driver", "-o", "canary=dgx09", "--yes"),
            2,
            "canary=dgx09 is not among the targets",
        ),
        (("sandbox", "power_cap", "-o", "watts=1", "--yes"), 2, "the ssh keys of 2 hosts are not known"),
    ],
)
def test_invalid_operation_is_refused_before_a_host_is_contacted(
    gpufleet: Gpufleet, workplace: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    reported = gpufleet("operate", *words)
    assert reported.code == code
    assert message in " ".join(reported.err.split())
    assert "  fix: " in reported.err
    assert not list(workplace.glob(".gpufleet/operate/**/last.json"))


def test_list_has_every_operation_with_its_options(gpufleet: Gpufleet) -> None:
    listed = {item["name"]: item for item in gpufleet("operate", "--list", "--json").json["operations"]}
    assert set(listed) == set(OPERATIONS)
    (watts,) = listed["power_cap"]["options"]
    assert (watts["name"], watts["required"]) == ("watts", True)
    text = gpufleet("operate", "--list").out
    assert all(f"{name}: {item.summary}" in text for name, item in OPERATIONS.items())
    assert "-o watts=...  power limit of each GPU in W; 0 is its own default (required)" in text


class Rack:
    """A checkout whose power_cap is a test playbook, on hosts that are this machine."""

    def __init__(self, folder: Path) -> None:
        self.root, self.out = folder, folder / "out"
        checkout = make_checkout(folder)
        self.out.mkdir()
        (folder / "home").mkdir()
        self.env = os.environ | checkout.env
        self.env |= {"PYTHONPATH": str(ROOT), "ANSIBLE_HOME": str(folder / "ansible-home")}
        (folder / "ansible" / "playbooks" / "power_cap.yml").write_text(PLAY.format(folder=self.out))

    def run(self, *words: str, code: int = 0, **env: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "tests.unit.cli.configure_local", "operate", "sandbox", "power_cap"]
        done = subprocess.run(
            [*command, "--transport", "ssh", "--json", *words],
            cwd=self.root,
            env=self.env | env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1]) if done.stdout.startswith("{") else {}

    @property
    def last(self) -> dict[str, Any]:
        return json.loads((self.root / ".gpufleet/operate/sandbox/power_cap/last.json").read_text())


def test_run_reports_each_target_and_resume_visits_the_unfinished_ones(tmp_path: Path) -> None:
    rack = Rack(tmp_path)
    rack.run("-o", "watts=500", code=1)  # asks, without an answer
    assert list(rack.out.iterdir()) == []

    first = rack.run("-o", "watts=500", "--yes", code=4, TEST_FAIL="dgx01", TEST_LEAVE="dgx02")
    assert (first["operation"], first["options"]) == ("power_cap", {"watts": 500})
    assert first["states"] == {"dgx01": "failed", "dgx02": "pending"}
    assert [item["message"] for item in first["failures"]] == ["the test says so"]
    assert rack.last["hosts"] == first["states"]
    assert rack.last["first"] == rack.last["run"] == first["run"]
    assert Path(first["page"]).is_file()
    assert list(rack.out.iterdir()) == []

    second = rack.run("--resume", "--yes", code=4, TEST_FAIL="dgx01")
    assert second["states"] == {"dgx01": "failed", "dgx02": "done"}
    assert (rack.out / "out-dgx02").read_text() == f"power_cap 500 dgx01 dgx02 {first['run']} True\n"

    # As after a run that was killed when it had finished a node.
    last = rack.last | {"complete": False, "hosts": dict.fromkeys(("dgx01", "dgx02"), "pending")}
    kept = rack.root / ".gpufleet/operate/sandbox/power_cap/last.json"
    kept.write_text(json.dumps(last))
    third = rack.run("--resume", "--yes")
    assert third["states"] == {"dgx01": "done"}
    # One operation with one ID, however often it was resumed.
    assert rack.last["first"] == first["run"] != rack.last["run"] == third["run"]
    assert (rack.out / "out-dgx01").read_text() == f"power_cap 500 dgx01 {first['run']} True\n"
    assert rack.run("--resume", "--yes")["states"] == {}


@pytest.mark.parametrize(
    ("undone", "visited"),
    [
        ({"ctl02"}, ("dgx01", "ctl01", "ctl02")),
        ({"dgx01"}, ("dgx01",)),
        (set(), ()),
    ],
)
def test_controllers_upgraded_together_are_resumed_together(
    workplace: Path, undone: set[str], visited: tuple[str, ...]
) -> None:
    fleet = ROOT / "gpufleet" / "lab" / "rack" / "fleet.yaml"
    setup = OperateSetup(str(fleet), OPERATIONS["upgrade_slurm"], "", "", None)
    everybody = ("dgx01", "dgx02", "ctl01", "ctl02", "login01")
    ended: dict[str, HostState] = dict.fromkeys(everybody, "done")
    last = LastRun("one", True, ended | dict.fromkeys(undone | {"dgx01"} if undone else undone, "failed"))
    assert setup._left(everybody, last) == visited


KEY = base64.b64encode(b"key of the new hardware").decode()
PRINT = "SHA256:" + base64.b64encode(hashlib.sha256(b"key of the new hardware").digest()).decode().rstrip("=")


def test_new_host_key_replaces_the_old_one_only_with_its_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "known_hosts"
    others = "dgx02 ssh-ed25519 BBBB\n@cert-authority *.x ssh-ed25519 CCCC\n"
    file.write_text("dgx01 ssh-ed25519 AAAA\n" + others)
    monkeypatch.setattr(host_keys, "_keyscan", lambda port, names: [("dgx01", "ssh-ed25519", KEY)])
    with pytest.raises(RefusedError, match="shows a key with SHA256:"):
        renew_key("dgx01", ("dgx01", 22), "SHA256:" + "x" * 43, file)
    assert file.read_text() == "dgx01 ssh-ed25519 AAAA\n" + others
    renew_key("dgx01", ("dgx01", 22), PRINT, file)
    assert file.read_text() == others + f"dgx01 ssh-ed25519 {KEY}\n"
    monkeypatch.setattr(host_keys, "_keyscan", lambda port, names: [])
    with pytest.raises(CloudError, match="does not answer"):
        renew_key("dgx01", ("dgx01", 22), PRINT, file)


def test_keys_of_hosts_that_left_are_forgotten_and_no_others(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    forget_keys([("dgx01", 22)], file)
    assert not file.exists()
    kept = "# ours\ndgx011 ssh-ed25519 AAAA\n[dgx01]:2222 ssh-ed25519 AAAA\n"
    file.write_text(f"dgx01 ssh-ed25519 AAAA\n{kept}dgx01 ssh-rsa BBBB\n")
    forget_keys([("dgx01", 22)], file)
    assert file.read_text() == kept
    forget_keys([("dgx01", 2222)], file)
    assert "[dgx01]" not in file.read_text() and "dgx011" in file.read_text()
