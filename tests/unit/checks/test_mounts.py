"""Mount points."""

from __future__ import annotations

import pytest

from tests.unit.checks.fleets import GONE, Judge
from tests.unit.checks.test_networks import SLURM

MOUNT = "cloud.0.storage.0.mount"
HOME = "onprem.0.storage.0"


def _second(mount: str | None) -> dict[str, object]:
    store: dict[str, object] = {
        "name": "second",
        "lustre": {"capacity": "1200 GiB", "throughput": "125 MB/s/TiB"},
    }
    return {"cloud.0.storage.+": store if mount is None else store | {"mount": mount}}


@pytest.mark.parametrize("mount", ["/fsx/scratch", "/fsx/scratch/inner", "/fsx"])
def test_overlapping_mount_points_are_refused(judge: Judge, mount: str) -> None:
    finding = judge(_second(mount)).only("mount-overlap")
    assert finding.field == "cloud[0].storage[2].mount"
    assert finding.value == mount
    how = "is also that of" if mount == "/fsx/scratch" else "overlaps that of"
    assert finding.message == f"mount point {mount} of 'second' {how} 'scratch' (/fsx/scratch)"


def test_scratch_mount_of_a_rack_overlaps_its_storage(judge: Judge) -> None:
    finding = judge({"onprem.0.local_nvme": {"mount": "/shared/home/x"}}).only("mount-overlap")
    assert finding.field == "onprem[0].local_nvme.mount"


@pytest.mark.parametrize("mount", ["/fsx/scratch2", "/fsx/other"])
def test_separate_mount_points_pass(judge: Judge, mount: str) -> None:
    assert judge(_second(mount)).rules == set()


def test_the_same_path_in_two_sites_passes(judge: Judge) -> None:
    assert judge({f"{HOME}.mount": "/fsx/scratch"}).rules == set()


def test_nodes_of_two_groups_mount_their_own_drives_at_the_same_path(judge: Judge) -> None:
    drives = {f"cloud.0.node_groups.{number}.local_nvme": {"mount": "/fast"} for number in (0, 3)}
    assert judge({**SLURM, **drives}).rules == {"slurm-cloud-unconnected"}


@pytest.mark.parametrize(
    "mount",
    [
        "/",
        "/etc",
        "/usr/local/data",
        "/proc/x",
        "/var",
        "/var/lib/kubelet",
        "/var/lib/docker/x",
        "/tmp",
        "/mnt",
    ],
)
def test_mount_points_of_the_system_are_refused(judge: Judge, mount: str) -> None:
    finding = judge({MOUNT: mount}).only("mount-reserved")
    assert finding.field == "cloud[0].storage[0].mount"
    assert finding.value == mount
    assert "/fsx/scratch" in finding.remedy
    tree = {"/usr/local/data": " (/usr)", "/proc/x": " (/proc)", "/var/lib/docker/x": " (/var/lib/docker)"}
    above = tree.get(mount, f" ({mount})" if mount in ("/etc", "/var/lib/kubelet") else "")
    assert finding.message == f"mount point {mount} belongs to the system{above}"


@pytest.mark.parametrize("mount", ["/home", "/home/ubuntu"])
def test_file_system_over_the_home_of_the_administrator_is_a_warning(judge: Judge, mount: str) -> None:
    judge({f"{HOME}.mount": mount}).only("mount-reserved", "warning")


@pytest.mark.parametrize("mount", ["/mnt/data", "/srv/models", "/etcetera", "/data"])
def test_ordinary_mount_points_pass(judge: Judge, mount: str) -> None:
    assert judge({MOUNT: mount}).rules == set()


@pytest.mark.parametrize("mount", ["/fsx//data", "/fsx/./data", "//fsx", "/fsx/data/"])
def test_two_spellings_of_one_path_are_refused(judge: Judge, mount: str) -> None:
    finding = judge({MOUNT: mount}).only("mount-path")
    assert finding.value == mount


def test_missing_mount_point_is_a_warning_with_the_default(judge: Judge) -> None:
    assert "/mnt/scratch" in judge({MOUNT: GONE}).only("mount-missing", "warning").message


def test_mount_point_of_a_bucket_is_refused(judge: Judge) -> None:
    finding = judge({"cloud.0.storage.1.mount": "/data"}).only("mount-on-bucket")
    assert "import_from: s3://atlas-test-data" in finding.remedy
