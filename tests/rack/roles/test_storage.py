"""Scratch on local drives, NFS and Lustre: created, kept over reboots, and never over existing data."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rack.lab import Lab, fleet_text
from tests.rack.roles.proof import RoleRuns, play, prove

FILE_SYSTEMS = """\
    local_nvme: { mount: /raid, cache: /raid/cache, drives: 8 }
    storage:
      - { name: home, kind: nfs, source: "nas01:/export/home", mount: /shared/home }
      - { name: scratch, kind: lustre, source: "mgs@tcp:/scratch", mount: /lustre }
"""
STRIPE = "Stripe the drives"


@pytest.fixture(scope="module")
def lab(can_hold_racks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two GPU nodes and a controller, which know the vendor's packages."""
    made = Lab.up(
        tmp_path_factory.mktemp("storage"),
        fleet_text(gpu_nodes=2, controllers=1, login=False, more=FILE_SYSTEMS),
    )
    try:
        made.add_vendor_repository("dgx01", "dgx02")
        yield made
    finally:
        made.down()


@pytest.fixture(scope="module")
def storage(lab: Lab) -> RoleRuns:
    """The storage roles on bare nodes: check run, run, and a second run without changes."""
    refused_for_data(lab)
    return prove(lab, ["local_nvme", "nfs_client", "lustre_client"], "dgx01,dgx02")


def refused_for_data(lab: Lab) -> None:
    """First, since the array uses all drives: data on one of them stops everything."""
    lab.sh("dgx01", "apt-get -qq install -y e2fsprogs >/dev/null; mkfs.ext4 -q /dev/nvme4n1")
    before = drives(lab)
    for check in (True, False):
        done = play(lab, ["local_nvme"], "dgx01", check=check)
        assert done.result.failed_hosts == ("dgx01",), f"check={check}"
        assert "/dev/nvme4n1 has ext4 (type)" in done.messages()
        assert "7 NVMe drives are blank" in done.messages() and "wipefs -a" in done.messages()
    assert drives(lab) == before
    assert lab.sh("dgx01", "mdadm --detail --scan; grep -c raid /etc/fstab", code=None).strip() == "0"
    lab.sh("dgx01", "wipefs -qa /dev/nvme4n1")


def drives(lab: Lab) -> str:
    """First and last bytes of dgx01's drives, where arrays and file systems start, and used space."""
    images = (lab.rack.layout.hardware("dgx01") / "disks").iterdir()
    blocks = {image.name: image.stat().st_blocks for image in images}
    ends = "for drive in /dev/nvme*n1; do (head -c 8M $drive; tail -c 8M $drive) | sha256sum; done"
    return lab.sh("dgx01", f"sync; {ends}") + str(sorted(blocks.items()))


def test_bare_nodes_match_the_check_run_and_a_second_run_changes_nothing(storage: RoleRuns) -> None:
    roles = {task.split(" : ")[0] for _, task in storage.first.changed}
    assert roles == {"local_nvme", "nfs_client", "lustre_client"}
    assert {host for host, _ in storage.first.changed} == {"dgx01", "dgx02"}


def test_scratch_is_striped_over_all_drives_and_writable_by_all(lab: Lab, storage: RoleRuns) -> None:
    detail = lab.sh("dgx01", "mdadm --detail --export $(findmnt -n -o SOURCE /raid)")
    assert "MD_LEVEL=raid0" in detail and "MD_DEVICES=8" in detail
    assert lab.sh("dgx01", "stat -f -c %T /raid; stat -c %a /raid /raid/cache").split() == [
        "xfs",
        "1777",
        "1777",
    ]
    lines = [line for line in lab.sh("dgx01", "cat /etc/fstab").splitlines() if " /raid " in line]
    assert len(lines) == 1 and lines[0].startswith("UUID=") and "nofail" in lines[0]
    assert "ARRAY /dev/md/scratch" in lab.sh("dgx01", "cat /etc/mdadm/mdadm.conf")


def test_fstab_lines_of_shared_file_systems_let_the_host_boot_without_them(
    lab: Lab, storage: RoleRuns
) -> None:
    table = lab.sh("dgx01", "cat /etc/fstab")
    assert "nas01:/export/home /shared/home nfs vers=4.2,nconnect=8," in table
    assert "mgs@tcp:/scratch /lustre lustre flock,noatime," in table
    assert table.count("nofail") == 3
    lab.sh("dgx01", "echo here >/shared/home/note; mountpoint -q /shared/home; mountpoint -q /lustre")
    assert "lustre-client-utils" in lab.sh("dgx01", "apt-mark showhold")
    # The machine's kernel is newer than 6.0.
    assert lab.sh("dgx01", "dpkg-query -W -f '${Version}' lustre-client-modules-dkms").startswith("2.17.")


def test_everything_is_mounted_with_its_data_after_a_reboot(lab: Lab, storage: RoleRuns) -> None:
    lab.sh("dgx01", "echo kept >/raid/cache/set")
    lab.rack.stop("dgx01")
    lab.rack.start("dgx01")
    lab.sh("dgx01", "for try in $(seq 1000); do mountpoint -q /shared/home && exit; sleep 0.2; done; exit 1")
    assert lab.sh("dgx01", "cat /raid/cache/set /shared/home/note").split() == ["kept", "here"]
    assert lab.sh("dgx01", "stat -f -c %T /raid; mountpoint /lustre").startswith("xfs\n")
    again = play(lab, ["local_nvme", "nfs_client", "lustre_client"], "dgx01")
    assert again.result.failures == () and not again.changed


def test_run_that_ended_after_the_array_was_created_is_completed_with_its_data(
    lab: Lab, storage: RoleRuns
) -> None:
    lab.sh("dgx02", "echo kept >/raid/cache/set; umount /raid; sed -i '/local_nvme/,+1d' /etc/fstab")
    done = play(lab, ["local_nvme"], "dgx02")
    assert done.changed == {("dgx02", f"local_nvme : {STRIPE}")}
    assert lab.sh("dgx02", "cat /raid/cache/set") == "kept\n"


def test_array_of_another_size_is_refused_by_name(lab: Lab, storage: RoleRuns) -> None:
    done = play(lab, ["local_nvme"], "dgx02", variables={"local_nvme_drives": 4})
    assert "array of level raid0 over 8 drives" in done.messages() and "over 4 drives" in done.messages()


def test_removed_mount_is_unmounted_and_other_fstab_lines_stay(lab: Lab, storage: RoleRuns) -> None:
    lab.sh("dgx02", "echo 'nas09:/own /own nfs noauto 0 0' >>/etc/fstab")
    moved = {"nfs_client_mounts": [{"source": "nas01:/export/home", "path": "/shared/people"}]}
    done = play(lab, ["nfs_client"], "dgx02", variables=moved)
    assert done.changed == {("dgx02", "nfs_client : Mount NFS file systems")}
    reported = lab.sh(
        "dgx02", "mountpoint -q /shared/home && echo still; mountpoint -q /shared/people; cat /etc/fstab"
    )
    assert "still" not in reported and "/shared/home" not in reported
    assert "nas09:/own /own nfs noauto 0 0" in reported and "/shared/people nfs" in reported
    taken = {"nfs_client_mounts": [{"source": "nas01:/x", "path": "/own"}]}
    refused = play(lab, ["nfs_client"], "dgx02", variables=taken)
    assert "/etc/fstab has nas09:/own on /own already" in refused.messages()


def test_unreachable_server_is_named(lab: Lab, storage: RoleRuns) -> None:
    with lab.hardware("dgx02").changing() as state:
        state["unreachable"] = ["nas02"]
    more = {"nfs_client_mounts": [{"source": "nas02:/data", "path": "/data"}]}
    done = play(lab, ["nfs_client"], "dgx02", variables=more)
    assert done.result.failed_hosts == ("dgx02",)
    assert "nas02:/data could not be mounted on /data" in done.messages()
    assert "timed out" in done.messages()


def test_missing_lustre_release_is_refused(lab: Lab, storage: RoleRuns) -> None:
    done = play(lab, ["lustre_client"], "dgx02", variables={"lustre_client_release": "2.14"})
    assert "in version 2.14.*" in done.messages() and "there is 2.17.0-1, 2.15.8-1" in done.messages()
