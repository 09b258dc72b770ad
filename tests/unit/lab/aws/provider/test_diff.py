"""A diff names exactly what changes, what it replaces, and in which order."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi.provider.experimental.provider import DiffResponse, PropertyDiffKind

from gpufleet.lab.aws.provider import planning
from gpufleet.lab.aws.provider.config import AwsProviderConfig
from gpufleet.lab.aws.provider.registry import handler_for
from gpufleet.lab.aws.provider.wire import UNKNOWN

NODES = "aws:eks/nodeGroup:NodeGroup"
LUSTRE = "aws:fsx/lustreFileSystem:LustreFileSystem"


def diff(token: str, old: dict[str, Any], new: dict[str, Any], *ignore: str) -> DiffResponse:
    return planning.diff(handler_for(token), old, new, list(ignore))


def test_nothing_changed_is_nothing_said() -> None:
    answer = diff(NODES, {"labels": {"a": "b"}}, {"labels": {"a": "b"}})
    assert answer.changes is False
    assert (answer.diffs, answer.replaces, answer.detailed_diff) == ([], [], {})


def test_a_nested_path_that_forces_a_replacement_replaces_its_property() -> None:
    old = {"launchTemplate": {"id": "lt-1", "version": "1"}}
    answer = diff(NODES, old, {"launchTemplate": {"id": "lt-2", "version": "1"}})
    assert answer.replaces == ["launchTemplate"]
    assert answer.detailed_diff["launchTemplate.id"].kind is PropertyDiffKind.UPDATE_REPLACE


def test_its_neighbour_changes_in_place() -> None:
    old = {"launchTemplate": {"id": "lt-1", "version": "1"}}
    answer = diff(NODES, old, {"launchTemplate": {"id": "lt-1", "version": "2"}})
    assert answer.diffs == ["launchTemplate"]
    assert answer.replaces == []
    assert answer.detailed_diff["launchTemplate.version"].kind is PropertyDiffKind.UPDATE


def test_ignored_paths_are_not_compared() -> None:
    old = {"scalingConfig": {"minSize": 0, "desiredSize": 1, "maxSize": 2}, "labels": {"a": "1"}}
    new = {"scalingConfig": {"minSize": 0, "desiredSize": 2, "maxSize": 2}, "labels": {"a": "2"}}
    assert diff(NODES, old, new, "scalingConfig.desiredSize").diffs == ["labels"]
    assert diff(NODES, old, new, "scalingConfig", "labels").changes is False


def test_a_property_that_aws_fills_in_is_kept_when_the_program_no_longer_names_it() -> None:
    old = {"enableDnsHostnames": True, "cidrBlock": "10.0.0.0/16"}
    assert diff("aws:ec2/vpc:Vpc", old, {"cidrBlock": "10.0.0.0/16"}).changes is False
    assert diff("aws:ec2/vpc:Vpc", old, {**old, "enableDnsHostnames": False}).diffs == ["enableDnsHostnames"]


def test_another_region_replaces_everything() -> None:
    assert diff("aws:ec2/vpc:Vpc", {"region": "us-east-1"}, {"region": "us-west-2"}).replaces == ["region"]


def test_a_fixed_name_that_stays_is_deleted_before_its_replacement() -> None:
    old = {"name": "fixed", "path": "/", "__defaults": []}
    answer = diff("aws:iam/role:Role", old, {**old, "path": "/x/"})
    assert answer.delete_before_replace is True


def test_a_made_name_lets_the_replacement_come_first() -> None:
    old = {"name": "role-1234567", "path": "/", "__defaults": ["name"]}
    answer = diff("aws:iam/role:Role", old, {**old, "path": "/x/"})
    assert answer.replaces == ["path"]
    assert answer.delete_before_replace is False


def test_an_update_in_place_never_asks_for_a_deletion() -> None:
    old = {"name": "fixed", "maxSessionDuration": 3600}
    assert diff("aws:iam/role:Role", old, {**old, "maxSessionDuration": 7200}).delete_before_replace is False


@pytest.mark.parametrize(
    ("changes", "replaced"),
    [
        ({"storageCapacity": 2400}, []),
        ({"storageCapacity": 600}, ["storageCapacity"]),
        ({"perUnitStorageThroughput": 250}, []),
        ({"fileSystemTypeVersion": "2.15"}, []),
        ({"fileSystemTypeVersion": "2.10"}, ["fileSystemTypeVersion"]),
        ({"metadataConfiguration": {"mode": "USER_PROVISIONED", "iops": 12000}}, []),
        ({"metadataConfiguration": {"mode": "AUTOMATIC"}}, ["metadataConfiguration"]),
        ({"kmsKeyId": "another"}, ["kmsKeyId"]),
        ({"dataCompressionType": "LZ4"}, []),
    ],
)
def test_a_file_system_grows_in_place_and_shrinks_by_replacement(
    changes: dict[str, Any], replaced: list[str]
) -> None:
    old = {
        "storageCapacity": 1200, "deploymentType": "PERSISTENT_2", "perUnitStorageThroughput": 125,
        "fileSystemTypeVersion": "2.12", "kmsKeyId": "key", "dataCompressionType": "NONE",
        "metadataConfiguration": {"mode": "USER_PROVISIONED", "iops": 6000},
    }  # fmt: skip
    assert diff(LUSTRE, old, {**old, **changes}).replaces == replaced


@pytest.mark.parametrize("deployment", ["PERSISTENT_1", "PERSISTENT_2"])
def test_persistent_file_systems_of_both_kinds_change_their_throughput_in_place(deployment: str) -> None:
    old = {"deploymentType": deployment, "storageType": "SSD", "perUnitStorageThroughput": 50}
    answer = diff(LUSTRE, old, {**old, "perUnitStorageThroughput": 200})
    assert (answer.diffs, answer.replaces) == (["perUnitStorageThroughput"], [])


def test_a_file_system_with_efa_cannot_change_its_throughput_in_place() -> None:
    old = {"deploymentType": "PERSISTENT_2", "efaEnabled": True, "perUnitStorageThroughput": 125}
    assert diff(LUSTRE, old, {**old, "perUnitStorageThroughput": 250}).replaces == [
        "perUnitStorageThroughput"
    ]


def test_encryption_of_secrets_goes_on_in_place_and_off_by_replacement() -> None:
    encryption = {"encryptionConfig": {"provider": {"keyArn": "k"}, "resources": ["secrets"]}}
    assert diff("aws:eks/cluster:Cluster", {}, encryption).replaces == []
    assert diff("aws:eks/cluster:Cluster", encryption, {}).replaces == ["encryptionConfig"]


CLUSTER = "aws:eks/cluster:Cluster"
VPC = {"subnetIds": ["subnet-1", "subnet-2"]}


def test_a_previewed_cluster_does_not_know_its_security_group_yet() -> None:
    planned = planning.planned_create(handler_for(CLUSTER), AwsProviderConfig(), {"vpcConfig": VPC})
    assert planned["vpcConfig"]["clusterSecurityGroupId"] == UNKNOWN
    assert planned["vpcConfig"]["subnetIds"] == VPC["subnetIds"]
    assert not [key for key in planned if "." in key]


def test_a_previewed_change_of_a_cluster_keeps_the_security_group_that_it_has() -> None:
    old = {"vpcConfig": {**VPC, "clusterSecurityGroupId": "sg-1", "endpointPublicAccess": True}}
    declared = {"vpcConfig": {**VPC, "endpointPublicAccess": True}, "tags": {"a": "b"}}
    planned = planning.planned_update(
        handler_for(CLUSTER), AwsProviderConfig(), {"vpcConfig": VPC, "tags": {"a": "c"}}, declared, old
    )
    assert planned["vpcConfig"]["clusterSecurityGroupId"] == "sg-1"
    assert "endpointPublicAccess" not in planned["vpcConfig"]
    assert not [key for key in planned if "." in key]


def test_networks_that_a_cluster_no_longer_names_stay_as_they_were() -> None:
    old = {"vpcConfig": {**VPC, "publicAccessCidrs": ["198.51.100.0/24"]}}
    planned = planning.planned_update(
        handler_for(CLUSTER), AwsProviderConfig(), {"vpcConfig": VPC}, dict(old), old
    )
    assert planned["vpcConfig"]["publicAccessCidrs"] == ["198.51.100.0/24"]
