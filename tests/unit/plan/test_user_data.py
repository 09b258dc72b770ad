"""NVMe drives and user data of node groups, and the program that mounts the drives of Slurm nodes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from gpufleet.plan import build_plan
from gpufleet.plan.models import NodeGroupPlan
from gpufleet.plan.node_programs import mount_scratch, scratch_program
from gpufleet.plan.user_data import STRIPE_IN_EKS
from gpufleet.spec.models import FleetSpec
from tests.unit.plan.fleets import CATALOG, cloud_site, group, on_demand, spec

OWN = "#!/bin/sh\ntrue\n"


def planned(instance: str | list[str], *, scheduler: str = "slurm", **changes: object) -> NodeGroupPlan:
    made: FleetSpec = spec(
        cloud=[cloud_site(group("a", instance, on_demand(0, 1), **changes), scheduler=scheduler)]
    )
    (found,) = build_plan(made, CATALOG).node_groups
    return found


def test_eks_nodes_stripe_their_drives_and_slurm_nodes_mount_them() -> None:
    eks, slurm = planned("p5.48xlarge", scheduler="kubernetes"), planned("p5.48xlarge")
    assert eks.local_nvme is not None and slurm.local_nvme is not None
    assert (eks.local_nvme.drives, eks.local_nvme.gb, eks.local_nvme.mount) == (8, 30_400, None)
    assert slurm.local_nvme.mount == "/scratch"
    own = planned("p5.48xlarge", local_nvme={"mount": "/raid"}).local_nvme
    assert own is not None and own.mount == "/raid"
    assert eks.user_data == (STRIPE_IN_EKS,)
    assert slurm.user_data == (mount_scratch("/scratch"),)


def test_node_config_is_that_of_nodeadm() -> None:
    config = yaml.safe_load(STRIPE_IN_EKS)
    assert (config["apiVersion"], config["kind"]) == ("node.eks.aws/v1alpha1", "NodeConfig")
    assert config["spec"] == {"instance": {"localStorage": {"strategy": "RAID0"}}}


@pytest.mark.parametrize(
    ("instance", "changes"),
    [("p5.48xlarge", {"local_nvme": {"use": "none"}}), ("inf2.xlarge", {})],
)
def test_unused_or_missing_drives_leave_the_launch_template_as_it_is(
    instance: str, changes: dict[str, object]
) -> None:
    found = planned(instance, **changes)
    assert found.local_nvme is None
    assert found.user_data == ()


def test_parts_of_the_fleet_file_come_last() -> None:
    assert planned("p5.48xlarge", user_data=[OWN]).user_data[-1] == OWN
    assert planned("inf2.xlarge", user_data=[OWN]).user_data == (OWN,)


STUBS = {
    "mountpoint": 'grep -qx -- "${*: -1}" "$WORLD/mounted" 2>/dev/null',
    "systemctl": '[ "$*" = "start dlami-nvme.service" ] && [ -e "$WORLD/dlami" ]'
    ' && echo /opt/dlami/nvme >> "$WORLD/mounted"',
    "blkid": 'cat "$WORLD/label" 2>/dev/null',
    "mkdir": "true",
    "chmod": "true",
    "mdadm": "true",
    "mkfs.ext4": "true",
    "mount": "true",
}


class Node:
    """A stand-in node: what its commands were called with. Only bash, find, readlink and sort are real."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.links = folder / "by-id"
        self.links.mkdir()
        tools = folder / "bin"
        tools.mkdir()
        for name, body in STUBS.items():
            tool = tools / name
            tool.write_text(f'#!/bin/bash\necho "{name} $*" >> "$WORLD/calls"\n{body}\n')
            tool.chmod(0o755)
        (folder / "program").write_text(scratch_program())

    def drives(self, count: int) -> None:
        """Instance store volumes, each with the two links that udev makes, beside an EBS volume."""
        for index in range(1, count + 1):
            device = self.folder / f"nvme{index}n1"
            device.touch()
            name = f"nvme-Amazon_EC2_NVMe_Instance_Storage_AWS{index:04}"
            for link in (name, f"{name}_1", f"{name}-part1"):
                (self.links / link).symlink_to(device)
        (self.folder / "nvme0n1").touch()
        (self.links / "nvme-Amazon_Elastic_Block_Store_vol0").symlink_to(self.folder / "nvme0n1")

    def start(self) -> subprocess.CompletedProcess[str]:
        path = f"{self.folder / 'bin'}:/usr/bin:/bin"
        return subprocess.run(
            ["bash", str(self.folder / "program"), "/scratch", str(self.links)],
            env={"PATH": path, "WORLD": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )

    def calls(self, *names: str) -> list[str]:
        log = self.folder / "calls"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line for line in lines if line.partition(" ")[0] in names]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_several_drives_become_one_striped_file_system(node: Node) -> None:
    node.drives(3)
    assert node.start().returncode == 0
    array = "/dev/md/gpufleet-scratch"
    devices = " ".join(str(node.folder / f"nvme{index}n1") for index in (1, 2, 3))
    assert node.calls("mdadm") == [f"mdadm --create {array} --run --level=0 --raid-devices=3 {devices}"]
    assert node.calls("mkfs.ext4") == [f"mkfs.ext4 -q -m 0 -L gpufleet-scratch {array}"]
    assert node.calls("mount") == [f"mount -o nosuid,nodev,noatime {array} /scratch"]


def test_one_drive_needs_no_array_and_the_root_volume_is_never_formatted(node: Node) -> None:
    node.drives(1)
    assert node.start().returncode == 0
    assert node.calls("mdadm") == []
    assert node.calls("mkfs.ext4") == [f"mkfs.ext4 -q -m 0 -L gpufleet-scratch {node.folder / 'nvme1n1'}"]
    assert "nvme0n1" not in " ".join(node.calls(*STUBS))


def test_file_system_of_before_a_reboot_is_mounted_and_not_formatted(node: Node) -> None:
    node.drives(2)
    (node.folder / "label").write_text("/dev/md127\n")
    assert node.start().returncode == 0
    assert node.calls("mdadm", "mkfs.ext4") == []
    assert node.calls("mount") == ["mount -o nosuid,nodev,noatime /dev/md127 /scratch"]


def test_drives_that_the_deep_learning_image_holds_are_shared_and_not_touched(node: Node) -> None:
    node.drives(2)
    (node.folder / "dlami").touch()
    assert node.start().returncode == 0
    assert node.calls("mdadm", "mkfs.ext4") == []
    assert node.calls("mount") == [
        "mount --bind /opt/dlami/nvme/gpufleet-scratch /scratch",
        "mount -o remount,bind,nosuid,nodev,noatime /scratch",
    ]


def test_mounted_file_system_is_left_alone(node: Node) -> None:
    node.drives(2)
    (node.folder / "mounted").write_text("/scratch\n")
    assert node.start().returncode == 0
    assert node.calls("mdadm", "mkfs.ext4", "mount") == []


def test_node_without_drives_fails_with_a_reason(node: Node) -> None:
    node.drives(0)
    done = node.start()
    assert done.returncode == 1
    assert "no instance store volume" in done.stderr
    assert node.calls("mkfs.ext4", "mount") == []


def test_installer_is_valid_and_contains_the_program_and_its_unit(tmp_path: Path) -> None:
    text = mount_scratch("/scratch")
    checked = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert scratch_program() in text
    assert "ExecStart=/usr/local/sbin/gpufleet-scratch /scratch" in text
    assert "Before=slurmd.service" in text
