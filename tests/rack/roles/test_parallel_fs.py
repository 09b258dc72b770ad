"""BeeGFS, WEKA and IBM Storage Scale: mounted if the vendor's client is ready, refused otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpufleet.racks.verify.measurements import RoleMeasurements
from gpufleet.racks.verify.roles import EVALUATORS
from tests.rack.lab import Lab, fleet_text
from tests.rack.roles.proof import PlayResult, play, prove

FILE_SYSTEMS = """\
    storage:
      - { name: work, kind: beegfs, source: mgmtd01, mount: /beegfs, options: [noatime] }
      - { name: fast, kind: weka, source: "weka01,weka02/fast", mount: /fast, options: [num_cores=2] }
      - { name: archive, kind: gpfs, source: archive, mount: /archive, options: [ro] }
"""
WANTED = {
    "beegfs": {"source": "mgmtd01", "path": "/beegfs", "options": ["noatime"]},
    "weka": {"source": "weka01,weka02/fast", "path": "/fast", "options": ["num_cores=2"]},
    "gpfs": {"source": "archive", "path": "/archive", "options": ["ro"]},
}
CLIENTS = "beegfs-client-dkms weka-agent gpfs.base"


@pytest.fixture(scope="module")
def lab(can_hold_racks: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A GPU node that knows the vendors' packages and has none, and a controller."""
    made = Lab.up(
        tmp_path_factory.mktemp("parallel"),
        fleet_text(gpu_nodes=1, controllers=1, login=False, more=FILE_SYSTEMS),
    )
    try:
        made.add_vendor_repository("dgx01")
        yield made
    finally:
        made.down()


def only(lab: Lab, *kinds: str, check: bool = False) -> PlayResult:
    """A run of the role with the file systems of these kinds."""
    wanted = [{"kind": kind} | WANTED[kind] for kind in kinds]
    variables = {"parallel_fs_client_mounts": wanted}
    return play(lab, ["parallel_fs_client"], "dgx01", check=check, variables=variables)


def test_host_is_refused_until_its_clients_are_ready_and_then_mounts(lab: Lab) -> None:
    before = lab.sh("dgx01", "cat /etc/fstab /proc/self/mounts")
    for kind, remedy in (
        ("beegfs", "install beegfs-client-dkms"),
        ("weka", "weka-agent.service is inactive"),
        ("gpfs", "only an active node of the cluster can mount"),
    ):
        for check in (True, False):
            done = only(lab, kind, check=check)
            assert done.result.failed_hosts == ("dgx01",), f"{kind}, check={check}"
            assert remedy in done.messages() and "Nothing was changed" in done.messages()
    assert lab.sh("dgx01", "cat /etc/fstab /proc/self/mounts") == before

    lab.sh("dgx01", f"apt-get -qq install -y {CLIENTS} >/dev/null; mkdir -p /var/mmfs")
    refused = play(lab, ["parallel_fs_client"], "dgx01")
    assert "node:1:unknown:1" in refused.messages()
    lab.sh("dgx01", "echo active >/var/mmfs/state")
    lab.sh("dgx01", "mv /etc/beegfs/beegfs-client.conf /root")
    assert "cannot access '/etc/beegfs/beegfs-client.conf'" in only(lab, "beegfs").messages()
    lab.sh("dgx01", "mv /root/beegfs-client.conf /etc/beegfs")
    assert lab.sh("dgx01", "cat /etc/fstab /proc/self/mounts") == before

    proof = prove(lab, ["parallel_fs_client"], "dgx01")
    assert proof.first.changed == {("dgx01", "parallel_fs_client : Mount parallel file systems")}
    lab.sh("dgx01", "for path in /beegfs /fast /archive; do mountpoint -q $path || exit 1; done")
    table = lab.sh("dgx01", "cat /etc/fstab")
    assert "beegfs_nodev /beegfs beegfs cfgFile=/etc/beegfs/beegfs-client.conf,sysMgmtdHost=mgmtd01," in table
    assert "weka01,weka02/fast /fast wekafs num_cores=2,nosuid,nodev,_netdev,nofail," in table
    assert "archive /archive gpfs ro,nosuid,nodev,dev=archive,noauto 0 0" in table


def test_verify_passes_and_finds_a_stopped_client(lab: Lab) -> None:
    assert faults(lab) == []
    lab.sh("dgx01", "systemctl stop weka-agent; umount /archive; echo down >/var/mmfs/state")
    # WEKA's mount requires its agent: systemd unmounts it when that is stopped.
    assert faults(lab) == ["weka agent", "gpfs daemon", "/fast", "/archive"]
    lab.sh("dgx01", "systemctl start weka-agent; echo active >/var/mmfs/state")
    assert play(lab, ["parallel_fs_client"], "dgx01").changed
    assert faults(lab) == []


def faults(lab: Lab) -> list[str]:
    """The checks of `gpufleet verify` that fail, by what the role measures now."""
    run = play(lab, ["parallel_fs_client"], "dgx01", tasks_from="verify")
    (task,) = run.of("Verify parallel file systems")
    values = {"mounts": [{"kind": kind} | item for kind, item in WANTED.items()]}
    named = {f"parallel_fs_client_{name}": value for name, value in values.items()}
    found = RoleMeasurements(
        "dgx01", "parallel_fs_client", named, task.result["measurements"], container=True
    )
    return [item.check for item in EVALUATORS["parallel_fs_client"](found) if item.status == "fail"]


def test_removed_file_system_is_unmounted_and_its_fstab_line_removed(lab: Lab) -> None:
    assert only(lab, "weka").result.failures == ()
    assert lab.sh("dgx01", "mountpoint -q /beegfs || mountpoint -q /archive || mountpoint /fast")
    assert "beegfs" not in lab.sh("dgx01", "cat /etc/fstab")
