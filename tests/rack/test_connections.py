"""What Ansible leaves on this machine of a rack that is gone."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.rack.lab import Lab, fleet_text


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
