"""Ansible on a rack: the inventory as `gpufleet inventory` writes it, and ssh with its keys checked."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.rack.lab import Lab, fleet_text

PLAYBOOK = """\
- hosts: all
  gather_facts: true
  gather_subset: [min]
  become: true
  tasks:
    - name: Write who it is
      ansible.builtin.copy:
        dest: /etc/who
        content: "{{ ansible_facts.hostname }} {{ ansible_facts.distribution }} {{ gpufleet_role }}\\n"
        mode: "0644"
    - name: Install a package
      ansible.builtin.apt:
        name: jq
        update_cache: true
      when: inventory_hostname == "dgx01"
"""


def test_a_playbook_reaches_every_host_and_a_second_run_changes_nothing(
    clean_rack: Lab, tmp_path: Path
) -> None:
    (tmp_path / "play.yml").write_text(PLAYBOOK)
    (tmp_path / "ansible.cfg").write_text("[ssh_connection]\npipelining = true\n")
    hosts = {host.name for host in clean_rack.rack.status()}

    first = clean_rack.run("play.yml", project=tmp_path)
    assert first.failures == ()
    changed = {name: stats.changed for name, stats in first.hosts.items()}
    assert changed == dict.fromkeys(hosts, 1) | {"dgx01": 2}
    assert clean_rack.sh("dgx03", "cat /etc/who") == "dgx03 Debian gpu\n"
    assert clean_rack.sh("ctl02", "cat /etc/who") == "ctl02 Debian controller\n"

    second = clean_rack.run("play.yml", project=tmp_path)
    assert second.failures == ()
    assert second.changed == 0


def test_a_host_that_goes_away_is_unreachable_and_the_others_are_done(rack: Lab) -> None:
    rack.rack.stop("dgx04", force=True)
    try:
        result = rack.run("playbooks/preflight.yml", environment={"ANSIBLE_TIMEOUT": "20"})
    finally:
        rack.rack.start("dgx04")
    assert result.failed_hosts == ("dgx04",)
    assert result.hosts["dgx04"].unreachable == 1
    assert result.hosts["dgx03"].ok > 0
    assert rack.run("playbooks/preflight.yml", limit="dgx04").failed_hosts == ()


def test_ansible_leaves_no_connection_behind_when_the_rack_goes_down(
    can_hold_racks: None, tmp_path: Path
) -> None:
    lab = Lab.up(tmp_path, fleet_text(gpu_nodes=1, controllers=1, login=False))
    try:
        lab.run("playbooks/preflight.yml")
        masters = ssh_masters(lab)
    finally:
        lab.down()
    assert ssh_masters(lab) == []
    assert not lab.rack.record.control_paths.exists()
    assert all(str(lab.rack.record.control_paths) in line for line in masters)


def ssh_masters(lab: Lab) -> list[str]:
    """The ssh processes of this machine that go by the rack's configuration."""
    said = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in said.splitlines() if lab.rack.record.runtime in line and "ssh" in line]
