"""SharedStorage and Bucket: encrypted, private, protected, and refused if FSx would refuse."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from gpufleet.components.bucket import Bucket, BucketArgs
from gpufleet.components.network import Network, NetworkArgs, SubnetArgs
from gpufleet.components.storage import DataRepositoryArgs, SharedStorage, SharedStorageArgs
from gpufleet.errors import InputError
from tests.unit.components.recording import ACCOUNT, Recording, record

BASE: dict[str, Any] = {
    "deployment_type": "PERSISTENT_2",
    "capacity_gib": 1200,
    "subnet_id": "subnet-a",
    "vpc_id": "vpc-1",
    "client_security_group_ids": ["sg-nodes"],
    "throughput": 125,
    "tags": {"team": "ml"},
}
SCRATCH = {"deployment_type": "SCRATCH_2", "throughput": None}
REPOSITORY = DataRepositoryArgs(bucket="atlas-data", prefix="train")


def storage(**changes: Any) -> Recording:
    return record(lambda: SharedStorage("shared", SharedStorageArgs(**BASE | changes)))


def system(**changes: Any) -> Any:
    return storage(**changes).one("LustreFileSystem")


def bucket(**changes: Any) -> Recording:
    args: dict[str, Any] = {"bucket": "atlas-data", "tags": {"team": "ml"}}
    return record(lambda: Bucket("data", BucketArgs(**args | changes)))


def test_persistent_file_system_is_encrypted_with_its_own_rotated_key() -> None:
    built = storage()
    assert built.one("LustreFileSystem").inputs["kmsKeyId"].endswith("Key/shared")
    assert built.one("Key").inputs["enableKeyRotation"] is True


KEY = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def test_file_system_uses_a_given_key_and_creates_none() -> None:
    built = storage(kms_key_arn=KEY)
    assert built.one("LustreFileSystem").inputs["kmsKeyId"] == KEY
    assert built.of("Key") == []


def test_scratch_file_system_refuses_a_key() -> None:
    with pytest.raises(InputError, match="key that it manages"):
        storage(**SCRATCH, kms_key_arn=KEY)


def test_bucket_uses_a_given_key_and_creates_none() -> None:
    built = bucket(kms_key_arn=KEY)
    (rule,) = built.one("BucketServerSideEncryptionConfiguration").inputs["rules"]
    assert rule["applyServerSideEncryptionByDefault"] == {"sseAlgorithm": "aws:kms", "kmsMasterKeyId": KEY}
    assert built.of("Key") == []


def test_scratch_file_system_has_no_key_throughput_or_backups() -> None:
    built = storage(**SCRATCH)
    assert built.of("Key") == []
    refused = {"kmsKeyId", "perUnitStorageThroughput", "automaticBackupRetentionDays", "copyTagsToBackups"}
    assert not refused & built.one("LustreFileSystem").inputs.keys()


def test_file_system_and_its_key_are_protected_by_default() -> None:
    built = storage()
    assert built.one("LustreFileSystem").protect
    assert built.one("Key").protect
    assert not system(protect=False).protect


def test_backups_are_tagged_and_a_final_backup_is_taken() -> None:
    inputs = system(backup_days=7).inputs
    assert inputs["automaticBackupRetentionDays"] == 7
    assert inputs["copyTagsToBackups"] is True
    assert inputs["skipFinalBackup"] is False
    assert system(final_backup=False).inputs["skipFinalBackup"] is True
    assert system(data_repository=REPOSITORY).inputs["skipFinalBackup"] is True


def test_only_clients_can_reach_the_file_system_on_lustre_ports() -> None:
    built = storage()
    rules = built.of("SecurityGroupIngressRule")
    assert {(r.inputs["fromPort"], r.inputs["toPort"]) for r in rules} == {(988, 988), (1018, 1023)}
    assert all(r.inputs["ipProtocol"] == "tcp" for r in rules)
    assert not any({"cidrIpv4", "cidrIpv6"} & r.inputs.keys() for r in rules)
    own = [r for r in rules if r.inputs["securityGroupId"] == "shared-id"]
    assert {r.inputs["referencedSecurityGroupId"] for r in own} == {"shared-id", "sg-nodes"}
    back = [r for r in rules if r.inputs["securityGroupId"] == "sg-nodes"]
    assert {r.inputs["referencedSecurityGroupId"] for r in back} == {"shared-id"}
    out = built.of("SecurityGroupEgressRule")
    assert {(r.inputs["fromPort"], r.inputs["toPort"]) for r in out} == {(988, 988), (1018, 1023)}
    assert {r.inputs["ipProtocol"] for r in out} == {"tcp"}
    assert {r.inputs["referencedSecurityGroupId"] for r in out} == {"shared-id", "sg-nodes"}


def test_file_system_is_created_after_the_rules_of_its_groups() -> None:
    built = storage()
    rules = [*built.of("SecurityGroupIngressRule"), *built.of("SecurityGroupEgressRule")]
    assert len(rules) == 10
    assert {rule.urn for rule in rules} <= set(built.one("LustreFileSystem").dependencies)


def test_efa_file_system_is_created_after_the_rules_of_the_efa_group() -> None:
    def program() -> None:
        subnets = [SubnetArgs(zone="us-east-1a", cidr="10.0.0.0/24")]
        network = Network("site", NetworkArgs(cidr="10.0.0.0/16", subnets=subnets, nat_zones=(), tags={}))
        efa = {"efa": True, "efa_security_group_id": network.efa_security_group_id}
        SharedStorage("shared", SharedStorageArgs(**BASE | efa))

    built = record(program)
    needed = {
        built.one("SecurityGroupIngressRule", "site-efa-in-members").urn,
        built.one("SecurityGroupEgressRule", "site-efa-out-members").urn,
    }
    assert needed <= set(built.one("LustreFileSystem").dependencies)


def test_efa_file_system_joins_the_group_of_the_nodes_and_sets_metadata() -> None:
    inputs = system(efa=True, efa_security_group_id="sg-efa", capacity_gib=38400).inputs
    assert inputs["efaEnabled"] is True
    assert inputs["securityGroupIds"] == ["shared-id", "sg-efa"]
    assert inputs["metadataConfiguration"] == {"mode": "AUTOMATIC"}
    assert inputs["fileSystemTypeVersion"] == "2.15"


def test_file_system_without_efa_sets_no_efa_property() -> None:
    inputs = system().inputs
    assert not {"efaEnabled", "metadataConfiguration"} & inputs.keys()
    assert inputs["securityGroupIds"] == ["shared-id"]


def test_metadata_iops_are_provisioned_as_requested() -> None:
    assert system(metadata_iops=6000).inputs["metadataConfiguration"] == {
        "mode": "USER_PROVISIONED",
        "iops": 6000,
    }


def test_data_repository_follows_the_bucket_and_exports_only_on_request() -> None:
    inputs = storage(data_repository=REPOSITORY).one("DataRepositoryAssociation").inputs
    assert inputs["dataRepositoryPath"] == "s3://atlas-data/train"
    assert inputs["s3"]["autoImportPolicy"]["events"] == ["NEW", "CHANGED", "DELETED"]
    assert "autoExportPolicy" not in inputs["s3"]
    assert inputs["deleteDataInFilesystem"] is False
    both = DataRepositoryArgs(bucket="atlas-data", export=True)
    exported = storage(data_repository=both).one("DataRepositoryAssociation").inputs
    assert exported["s3"]["autoExportPolicy"]["events"] == ["NEW", "CHANGED", "DELETED"]
    assert storage().of("DataRepositoryAssociation") == []


def test_changed_data_repository_is_deleted_before_its_replacement() -> None:
    built = storage(data_repository=REPOSITORY)
    assert built.one("DataRepositoryAssociation").delete_before_replace
    assert not built.one("LustreFileSystem").delete_before_replace


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"efa": True}, "EFA needs"),
        ({"efa": True, "efa_security_group_id": "sg", "deployment_type": "PERSISTENT_1"}, "EFA needs"),
        ({"metadata_iops": 6000, "deployment_type": "PERSISTENT_1"}, "metadata IOPS"),
        ({"throughput": None}, "throughput None"),
        (SCRATCH | {"throughput": 125}, "throughput 125"),
        (SCRATCH | {"backup_days": 7}, "cannot back up"),
        ({"backup_days": 7, "data_repository": REPOSITORY}, "cannot back up"),
    ],
)
def test_invalid_fsx_settings_are_refused_with_a_remedy(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        storage(**changes)
    assert refused.value.remedy


def test_bucket_blocks_all_public_access() -> None:
    block = bucket().one("BucketPublicAccessBlock").inputs
    switches = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
    assert all(block[switch] is True for switch in switches)


def test_bucket_is_encrypted_with_its_own_rotated_key() -> None:
    built = bucket()
    (rule,) = built.one("BucketServerSideEncryptionConfiguration").inputs["rules"]
    default = rule["applyServerSideEncryptionByDefault"]
    assert default["sseAlgorithm"] == "aws:kms"
    assert default["kmsMasterKeyId"].endswith("Key/data")
    assert rule["bucketKeyEnabled"] is True
    assert built.one("Key").inputs["enableKeyRotation"] is True


def test_bucket_exports_the_key_that_its_readers_need() -> None:
    seen: list[Any] = []
    built = record(lambda: Bucket("data", BucketArgs(bucket="b", tags={})).key_arn.apply(seen.append))
    (rule,) = built.one("BucketServerSideEncryptionConfiguration").inputs["rules"]
    assert seen == [rule["applyServerSideEncryptionByDefault"]["kmsMasterKeyId"]]


def test_bucket_requires_tls_and_its_policy_grants_nothing() -> None:
    policy = json.loads(bucket().one("BucketPolicy").inputs["policy"])
    (statement,) = policy["Statement"]
    assert statement["Effect"] == "Deny"
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert all(arn.startswith("arn:aws:") for arn in statement["Resource"])


def test_bucket_owner_owns_every_object_and_acls_are_disabled() -> None:
    built = bucket()
    assert built.one("BucketOwnershipControls").inputs["rule"]["objectOwnership"] == "BucketOwnerEnforced"
    assert "acl" not in built.one("aws:s3/bucket:Bucket").inputs


def test_bucket_key_is_only_for_linked_file_systems_of_this_account() -> None:
    policy = json.loads(bucket().one("Key").inputs["policy"])
    (statement,) = [s for s in policy["Statement"] if s["Sid"] == "LinkedFileSystems"]
    assert statement["Condition"]["StringEquals"] == {"kms:CallerAccount": ACCOUNT}
    role = statement["Condition"]["StringLike"]["aws:PrincipalArn"]
    assert role.endswith("AWSServiceRoleForFSxS3Access_fs-*")
    assert all(re.fullmatch(r"kms:\w+\*?", action) for action in statement["Action"])


def test_versions_are_kept_only_on_request() -> None:
    assert bucket().one("BucketVersioning").inputs["versioningConfiguration"] == {"status": "Enabled"}
    assert bucket(versioning=False).of("BucketVersioning") == []


def test_unfinished_uploads_expire_and_objects_only_on_request() -> None:
    (only,) = bucket().one("BucketLifecycleConfiguration").inputs["rules"]
    assert only["status"] == "Enabled"
    assert only["abortIncompleteMultipartUpload"] == {"daysAfterInitiation": 7}
    assert "expiration" not in only
    _, expiry = bucket(expire_days=30).one("BucketLifecycleConfiguration").inputs["rules"]
    assert expiry["expiration"] == {"days": 30}
    assert expiry["status"] == "Enabled"


def test_protected_bucket_is_never_emptied() -> None:
    kept = bucket().one("aws:s3/bucket:Bucket")
    assert kept.protect
    assert kept.inputs["forceDestroy"] is False
    trial = bucket(protect=False).one("aws:s3/bucket:Bucket")
    assert not trial.protect
    assert trial.inputs["forceDestroy"] is True


def test_bucket_records_that_its_lifecycle_exists() -> None:
    (outputs,) = [found for urn, found in bucket().outputs.items() if "storage:Bucket::" in urn]
    assert outputs["lifecycleId"]
