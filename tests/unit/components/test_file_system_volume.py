"""FSx for Lustre for pods: one volume for each namespace, and its claim."""

from __future__ import annotations

from typing import Any

from gpufleet.components.cluster_base import ClusterBase, ClusterBaseArgs, FileSystemArgs, TeamArgs
from tests.unit.components.recording import Recording, record


def system(name: str, *, write: bool = True) -> FileSystemArgs:
    return FileSystemArgs(
        name=name,
        file_system_id="fs-1",
        dns_name="fs-1.fsx.us-east-1.amazonaws.com",
        mount_name="abcdefgh",
        capacity_gib=2400,
        write=write,
    )


def built() -> Recording:
    teams = [
        TeamArgs(name="research", gpus=16, file_systems=[system("shared")]),
        TeamArgs(name="serving", gpus=2, file_systems=[system("shared", write=False)]),
        TeamArgs(name="idle", gpus=0),
    ]
    return record(lambda: ClusterBase("base", ClusterBaseArgs(teams=teams, region="us-east-1")))


def by_name(made: Recording, kind: str) -> dict[str, Any]:
    return {each.name: each.inputs for each in made.of(kind)}


def test_each_team_has_a_volume_of_its_own_with_a_handle_of_its_own() -> None:
    volumes = by_name(built(), "PersistentVolume")
    assert volumes.keys() == {"base-research-shared-rw", "base-serving-shared-ro"}
    handles = {each["spec"]["csi"]["volumeHandle"] for each in volumes.values()}
    assert handles == {"fs-1:research", "fs-1:serving"}
    for volume in volumes.values():
        assert volume["spec"]["csi"]["volumeAttributes"] == {
            "dnsname": "fs-1.fsx.us-east-1.amazonaws.com",
            "mountname": "abcdefgh",
        }
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        assert volume["spec"]["capacity"] == {"storage": "2400Gi"}


def test_volume_is_reserved_for_the_claim_of_its_team() -> None:
    made = built()
    volume = by_name(made, "PersistentVolume")["base-research-shared-rw"]
    assert volume["spec"]["claimRef"]["namespace"] == "research"
    assert volume["spec"]["claimRef"]["name"] == "shared"
    claims = by_name(made, "PersistentVolumeClaim")
    assert claims.keys() == {"base-research-shared", "base-serving-shared"}
    claim = claims["base-research-shared"]["spec"]
    assert (claim["volumeName"], claim["storageClassName"]) == ("research-shared-rw", "")


def test_team_that_only_reads_mounts_read_only() -> None:
    made = built()
    modes = {
        name: (each["spec"]["accessModes"], each["spec"]["csi"].get("readOnly"))
        for name, each in by_name(made, "PersistentVolume").items()
    }
    assert modes == {
        "base-research-shared-rw": (["ReadWriteMany"], None),
        "base-serving-shared-ro": (["ReadOnlyMany"], True),
    }
    assert all(each.delete_before_replace for each in made.of("PersistentVolumeClaim"))
