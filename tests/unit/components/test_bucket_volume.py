"""Buckets for pods: volumes of Mountpoint for Amazon S3, one for each folder, and their claims."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.components.cluster_base import BucketFolderArgs, ClusterBase, ClusterBaseArgs, TeamArgs
from gpufleet.errors import InputError
from tests.unit.components.recording import Recording, record


def folders(team: str, *, write: bool) -> list[BucketFolderArgs]:
    return [
        BucketFolderArgs(name="data", bucket="atlas-data", prefix=f"{team}/", write=write),
        BucketFolderArgs(name="data-shared", bucket="atlas-data", prefix="shared/", write=False),
    ]


def built(*teams: TeamArgs) -> Recording:
    return record(lambda: ClusterBase("base", ClusterBaseArgs(teams=teams, region="us-east-1")))


@pytest.fixture(scope="module")
def made() -> Recording:
    return built(
        TeamArgs(name="research", gpus=16, bucket_folders=folders("research", write=True)),
        TeamArgs(name="serving", gpus=2, bucket_folders=folders("serving", write=False)),
        TeamArgs(name="idle", gpus=0),
    )


def volumes(made: Recording) -> dict[str, dict[str, Any]]:
    return {each.name: each.inputs["spec"] for each in made.of("PersistentVolume")}


def test_each_folder_of_each_team_has_a_volume_and_a_handle_of_its_own(made: Recording) -> None:
    assert {name: each["csi"]["volumeHandle"] for name, each in volumes(made).items()} == {
        "base-research-data-rw": "atlas-data:research:data",
        "base-research-data-shared-ro": "atlas-data:research:data-shared",
        "base-serving-data-ro": "atlas-data:serving:data",
        "base-serving-data-shared-ro": "atlas-data:serving:data-shared",
    }
    names = {each.inputs["metadata"]["name"] for each in made.of("PersistentVolume")}
    assert "research-data-shared-ro.atlas-data" in names
    claims = {each.name: each.inputs["metadata"] for each in made.of("PersistentVolumeClaim")}
    assert {(each["namespace"], each["name"]) for each in claims.values()} == {
        (team, claim) for team in ("research", "serving") for claim in ("data", "data-shared")
    }


def test_volumes_are_mounted_with_the_role_of_the_pod_and_never_with_the_drivers(made: Recording) -> None:
    for each in volumes(made).values():
        assert each["csi"]["driver"] == "s3.csi.aws.com"
        assert each["csi"]["volumeAttributes"] == {
            "bucketName": "atlas-data",
            "authenticationSource": "pod",
        }


def test_writers_may_overwrite_and_delete_below_the_prefix_of_their_team(made: Recording) -> None:
    volume = volumes(made)["base-research-data-rw"]
    assert volume["mountOptions"] == [
        "prefix research/",
        "region us-east-1",
        "allow-other",
        "allow-delete",
        "allow-overwrite",
        "dir-mode 0777",
        "file-mode 0666",
    ]
    assert (volume["accessModes"], volume["csi"].get("readOnly")) == (["ReadWriteMany"], None)


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("base-serving-data-ro", "serving/"), ("base-research-data-shared-ro", "shared/")],
)
def test_readers_and_the_shared_folder_are_mounted_read_only(made: Recording, name: str, prefix: str) -> None:
    volume = volumes(made)[name]
    # The driver passes `--read-only` to Mountpoint for this mode (pkg/driver/node/node.go).
    assert (volume["accessModes"], volume["csi"]["readOnly"]) == (["ReadOnlyMany"], True)
    assert volume["mountOptions"] == [f"prefix {prefix}", "region us-east-1", "allow-other"]


@pytest.mark.parametrize("prefix", ["", "research", "two words/"])
def test_prefix_that_mountpoint_refuses_is_refused_first(prefix: str) -> None:
    folder = BucketFolderArgs(name="data", bucket="atlas-data", prefix=prefix)
    with pytest.raises(InputError, match="is no folder"):
        built(TeamArgs(name="research", gpus=1, bucket_folders=[folder]))
