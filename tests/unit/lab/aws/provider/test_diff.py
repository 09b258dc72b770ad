"""A diff has exactly the changes, replacements, and their order."""

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


def test_unchanged_inputs_have_no_diff() -> None:
    answer = diff(NODES, {"labels": {"a": "b"}}, {"labels": {"a": "b"}})
    assert answer.changes is False
    assert (answer.diffs, answer.replaces, answer.detailed_diff) == ([], [], {})


def test_nested_path_that_forces_a_replacement_replaces_its_property() -> None:
    old = {"launchTemplate": {"id": "lt-1", "version": "1"}}
    answer = diff(NODES, old, {"launchTemplate": {"id": "lt-2", "version": "1"}})
    assert answer.replaces == ["launchTemplate"]
    assert answer.detailed_diff["launchTemplate.id"].kind is PropertyDiffKind.UPDATE_REPLACE


def test_neighbour_of_a_replaced_property_changes_in_place() -> None:
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


def test_property_set_by_aws_is_kept_when_the_program_no_longer_sets_it() -> None:
    old = {"enableDnsHostnames": True, "cidrBlock": "10.0.0.0/16"}
    assert diff("aws:ec2/vpc:Vpc", old, {"cidrBlock": "10.0.0.0/16"}).changes is False
    assert diff("aws:ec2/vpc:Vpc", old, {**old, "enableDnsHostnames": False}).diffs == ["enableDnsHostnames"]


def test_changed_region_replaces_everything() -> None:
    assert diff("aws:ec2/vpc:Vpc", {"region": "us-east-1"}, {"region": "us-west-2"}).replaces == ["region"]


def test_fixed_name_requires_delete_before_replace() -> None:
    old = {"name": "fixed", "path": "/", "__defaults": []}
    answer = diff("aws:iam/role:Role", old, {**old, "path": "/x/"})
    assert answer.delete_before_replace is True


def test_generated_name_allows_create_before_delete() -> None:
    old = {"name": "role-1234567", "path": "/", "__defaults": ["name"]}
    answer = diff("aws:iam/role:Role", old, {**old, "path": "/x/"})
    assert answer.replaces == ["path"]
    assert answer.delete_before_replace is False


def test_in_place_update_never_requires_a_deletion() -> None:
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
def test_file_system_grows_in_place_and_shrinks_by_replacement(
    changes: dict[str, Any], replaced: list[str]
) -> None:
    old = {
        "storageCapacity": 1200, "deploymentType": "PERSISTENT_2", "perUnitStorageThroughput": 125,
        "fileSystemTypeVersion": "2.12", "kmsKeyId": "key", "dataCompressionType": "NONE",
        "metadataConfiguration": {"mode": "USER_PROVISIONED", "iops": 6000},
    }  # fmt: skip
    assert diff(LUSTRE, old, {**old, **changes}).replaces == replaced


@pytest.mark.parametrize("deployment", ["PERSISTENT_1", "PERSISTENT_2"])
def test_persistent_file_systems_change_their_throughput_in_place(deployment: str) -> None:
    old = {"deploymentType": deployment, "storageType": "SSD", "perUnitStorageThroughput": 50}
    answer = diff(LUSTRE, old, {**old, "perUnitStorageThroughput": 200})
    assert (answer.diffs, answer.replaces) == (["perUnitStorageThroughput"], [])


def test_file_system_with_efa_cannot_change_its_throughput_in_place() -> None:
    old = {"deploymentType": "PERSISTENT_2", "efaEnabled": True, "perUnitStorageThroughput": 125}
    assert diff(LUSTRE, old, {**old, "perUnitStorageThroughput": 250}).replaces == [
        "perUnitStorageThroughput"
    ]


def test_encryption_of_secrets_is_enabled_in_place_and_disabled_by_replacement() -> None:
    encryption = {"encryptionConfig": {"provider": {"keyArn": "k"}, "resources": ["secrets"]}}
    assert diff("aws:eks/cluster:Cluster", {}, encryption).replaces == []
    assert diff("aws:eks/cluster:Cluster", encryption, {}).replaces == ["encryptionConfig"]


CLUSTER = "aws:eks/cluster:Cluster"
VPC = {"subnetIds": ["subnet-1", "subnet-2"]}


def test_security_group_of_a_new_cluster_is_unknown_in_a_preview() -> None:
    planned = planning.planned_create(handler_for(CLUSTER), AwsProviderConfig(), {"vpcConfig": VPC})
    assert planned["vpcConfig"]["clusterSecurityGroupId"] == UNKNOWN
    assert planned["vpcConfig"]["subnetIds"] == VPC["subnetIds"]
    assert not [key for key in planned if "." in key]


def test_security_group_of_a_changed_cluster_is_known_in_a_preview() -> None:
    old = {"vpcConfig": {**VPC, "clusterSecurityGroupId": "sg-1", "endpointPublicAccess": True}}
    declared = {"vpcConfig": {**VPC, "endpointPublicAccess": True}, "tags": {"a": "b"}}
    planned = planning.planned_update(
        handler_for(CLUSTER), AwsProviderConfig(), {"vpcConfig": VPC, "tags": {"a": "c"}}, declared, old
    )
    assert planned["vpcConfig"]["clusterSecurityGroupId"] == "sg-1"
    assert "endpointPublicAccess" not in planned["vpcConfig"]
    assert not [key for key in planned if "." in key]


def test_networks_removed_from_the_program_stay_on_the_cluster() -> None:
    old = {"vpcConfig": {**VPC, "publicAccessCidrs": ["198.51.100.0/24"]}}
    planned = planning.planned_update(
        handler_for(CLUSTER), AwsProviderConfig(), {"vpcConfig": VPC}, dict(old), old
    )
    assert planned["vpcConfig"]["publicAccessCidrs"] == ["198.51.100.0/24"]


RESOLVER = "aws:route53/resolverEndpoint:ResolverEndpoint"
FIRST = {"subnetId": "subnet-a", "ip": "10.40.0.5", "ipId": "rni-1"}


def test_values_of_aws_in_blocks_of_a_list_are_unknown_before_their_creation() -> None:
    inputs = {"ipAddresses": [{"subnetId": "subnet-a"}, {"subnetId": UNKNOWN}]}
    planned = planning.planned_create(handler_for(RESOLVER), AwsProviderConfig(), inputs)
    assert planned["ipAddresses"] == [
        {"subnetId": each, "ip": UNKNOWN, "ipId": UNKNOWN} for each in ("subnet-a", UNKNOWN)
    ]


def test_blocks_of_a_list_keep_values_of_aws_in_an_update() -> None:
    before = {"name": "a", "ipAddresses": [{"subnetId": "subnet-a"}]}
    after = {"name": "b", "ipAddresses": [{"subnetId": "subnet-a"}, {"subnetId": "subnet-b"}]}
    planned = planning.planned_update(
        handler_for(RESOLVER), AwsProviderConfig(), after, before, {**before, "ipAddresses": [FIRST]}
    )
    assert planned["ipAddresses"] == [FIRST, {"subnetId": "subnet-b", "ip": UNKNOWN, "ipId": UNKNOWN}]
