"""Every property that a security rule protects: weakened, unknown, secret, ignored, nested, elsewhere."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]

KEY = "arn:aws:kms:us-east-1:123456789012:key/1234"
GONE = object()
"""Stands for a property that is not set."""


@dataclass(frozen=True)
class ProtectedProperty:
    """A resource that passes a rule, the property that makes it pass, and values with which it must not.

    `path` is the property to weaken, `names` the property of the violation if it is another.
    """

    rule: str
    type: str
    props: Mapping[str, Any]
    path: str
    bad: tuple[Any, ...]
    others: tuple[Described, ...] = ()
    depends: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    unknown_is_bad: bool = True
    ignored: bool = True

    def resource(self, value: Any = None, **more: Any) -> Described:
        props = copy.deepcopy(dict(self.props))
        if value is not None:
            _set(props, self.path, value)
        return {
            "type": self.type,
            "name": "judged",
            "props": props,
            "depends": self.depends,
            "options": self.options,
            **more,
        }


def _set(props: Any, path: str, value: Any) -> None:
    *parents, last = re.findall(r"[^.\[\]]+", path)
    for part in parents:
        props = props[int(part)] if isinstance(props, list) else props[part]
    key: Any = int(last) if isinstance(props, list) else last
    if value is GONE:
        del props[key]
    else:
        props[key] = value


TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
INSTANCE = "aws:ec2/instance:Instance"
SPOT = "aws:ec2/spotInstanceRequest:SpotInstanceRequest"
CONFIGURATION = "aws:ec2/launchConfiguration:LaunchConfiguration"
VOLUME = "aws:ebs/volume:Volume"
CLUSTER = "aws:eks/cluster:Cluster"
LUSTRE = "aws:fsx/lustreFileSystem:LustreFileSystem"
BUCKET: Described = {
    "type": "aws:s3/bucket:Bucket",
    "name": "bucket",
    "props": {"bucket": "b"},
    "options": {"protect": True},
}
OLD_BUCKET = {**BUCKET, "type": "aws:s3/bucketV2:BucketV2"}
METADATA = {"metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1}}
TOKENS = ("optional", "Required ", "", GONE)
HOPS = (2, 64, "many", True, GONE)
OFF = (False, "false", "", GONE)
NO_KEY = ("", "  ", "alias/aws/ebs", "arn:aws:kms:us-east-1:1:alias/AWS/s3", GONE)
ROOT = {"rootBlockDevice": {"encrypted": True}}
PRIVATE = {
    "vpcConfig": {"endpointPublicAccess": False, "endpointPrivateAccess": True},
    "deletionProtection": True,
}
NAMED = {
    "vpcConfig": {
        "endpointPublicAccess": True,
        "endpointPrivateAccess": True,
        "publicAccessCidrs": ["198.51.100.0/24"],
    }
}
BLOCK = dict.fromkeys(
    ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets"), True
)
ENCRYPTION = {
    "bucket": "b",
    "rules": [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "aws:kms"}}],
}
ALGORITHM = "rules[0].applyServerSideEncryptionByDefault.sseAlgorithm"
WORLD = ("0.0.0.0/0", "::/0", "0.0.0.0/1", "128.0.0.0/1", " 0.0.0.0/0", "2000::/3", "not a network")
CIDR = {"ipProtocol": "tcp", "fromPort": 443, "toPort": 443, "cidrIpv4": "203.0.113.0/24"}
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"

CASES = [
    *(
        ProtectedProperty("imdsv2-required", kind, METADATA, path, bad)
        for kind in (TEMPLATE, INSTANCE, SPOT, CONFIGURATION)
        for path, bad in (
            ("metadataOptions.httpTokens", TOKENS),
            ("metadataOptions.httpPutResponseHopLimit", HOPS),
            ("metadataOptions", (GONE,)),
        )
    ),
    ProtectedProperty(
        "imdsv2-required",
        "aws:ec2/instanceMetadataDefaults:InstanceMetadataDefaults",
        {"httpTokens": "required", "httpPutResponseHopLimit": 1},
        "httpTokens",
        TOKENS,
    ),
    ProtectedProperty(
        "ebs-encrypted",
        TEMPLATE,
        {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"encrypted": "true"}}]},
        "blockDeviceMappings[0].ebs.encrypted",
        OFF,
    ),
    ProtectedProperty(
        "ebs-encrypted",
        TEMPLATE,
        {
            "blockDeviceMappings": [
                {"deviceName": "/dev/sda1", "ebs": {"encrypted": "true"}},
                {"deviceName": "/dev/sdb", "ebs": {"encrypted": "true"}},
            ]
        },
        "blockDeviceMappings[1].ebs.encrypted",
        OFF,
    ),
    *(
        ProtectedProperty("ebs-encrypted", kind, ROOT, "rootBlockDevice.encrypted", OFF)
        for kind in (INSTANCE, SPOT, CONFIGURATION)
    ),
    ProtectedProperty(
        "ebs-encrypted",
        INSTANCE,
        {**ROOT, "ebsBlockDevices": [{"deviceName": "/dev/sdf", "encrypted": True}]},
        "ebsBlockDevices[0].encrypted",
        OFF,
    ),
    ProtectedProperty("ebs-encrypted", VOLUME, {"encrypted": True, "kmsKeyId": KEY}, "encrypted", OFF),
    ProtectedProperty("ebs-encrypted", VOLUME, {"encrypted": True, "kmsKeyId": KEY}, "kmsKeyId", NO_KEY),
    ProtectedProperty(
        "ebs-encrypted", "aws:ebs/snapshotCopy:SnapshotCopy", {"encrypted": True}, "encrypted", OFF
    ),
    ProtectedProperty(
        "ebs-encrypted",
        "aws:ebs/encryptionByDefault:EncryptionByDefault",
        {"enabled": True},
        "enabled",
        (False, "false"),
    ),
    ProtectedProperty(
        "file-systems-encrypted",
        LUSTRE,
        {"deploymentType": "PERSISTENT_2", "kmsKeyId": KEY},
        "kmsKeyId",
        NO_KEY,
    ),
    *(
        ProtectedProperty("file-systems-encrypted", kind, {"kmsKeyId": KEY}, "kmsKeyId", NO_KEY)
        for kind in (
            "aws:fsx/ontapFileSystem:OntapFileSystem",
            "aws:fsx/openZfsFileSystem:OpenZfsFileSystem",
            "aws:fsx/windowsFileSystem:WindowsFileSystem",
            "aws:fsx/fileCache:FileCache",
        )
    ),
    ProtectedProperty(
        "file-systems-encrypted",
        "aws:efs/fileSystem:FileSystem",
        {"encrypted": True, "kmsKeyId": KEY},
        "encrypted",
        OFF,
    ),
    *(
        ProtectedProperty("buckets-encrypted", kind, ENCRYPTION, ALGORITHM, ("none", "", GONE), (bucket,))
        for bucket in (BUCKET, OLD_BUCKET)
        for kind in (
            "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
            "aws:s3/bucketServerSideEncryptionConfigurationV2:BucketServerSideEncryptionConfigurationV2",
        )
    ),
    ProtectedProperty(
        "queues-encrypted", "aws:sqs/queue:Queue", {"sqsManagedSseEnabled": True}, "sqsManagedSseEnabled", OFF
    ),
    ProtectedProperty(
        "queues-encrypted", "aws:sqs/queue:Queue", {"kmsMasterKeyId": KEY}, "kmsMasterKeyId", ("", " ", GONE)
    ),
    ProtectedProperty(
        "topics-encrypted", "aws:sns/topic:Topic", {"kmsMasterKeyId": KEY}, "kmsMasterKeyId", ("", " ", GONE)
    ),
    ProtectedProperty(
        "secrets-encrypted", "aws:secretsmanager/secret:Secret", {"kmsKeyId": KEY}, "kmsKeyId", NO_KEY
    ),
    ProtectedProperty(
        "secrets-encrypted",
        "aws:secretsmanager/secret:Secret",
        {"kmsKeyId": KEY, "replicas": [{"region": "us-west-2", "kmsKeyId": KEY}]},
        "replicas[0].kmsKeyId",
        NO_KEY,
    ),
    ProtectedProperty(
        "secrets-encrypted",
        "aws:ssm/parameter:Parameter",
        {"type": "SecureString", "value": "v"},
        "type",
        ("String", "StringList", "securestring", GONE),
    ),
    ProtectedProperty(
        "log-groups-encrypted", "aws:cloudwatch/logGroup:LogGroup", {"kmsKeyId": KEY}, "kmsKeyId", NO_KEY
    ),
    ProtectedProperty(
        "log-retention",
        "aws:cloudwatch/logGroup:LogGroup",
        {"retentionInDays": 365},
        "retentionInDays",
        (364, 1, 0, GONE, "365"),
    ),
    ProtectedProperty(
        "data-stores-encrypted",
        "aws:ecr/repository:Repository",
        {"encryptionConfigurations": [{"encryptionType": "KMS", "kmsKey": KEY}]},
        "encryptionConfigurations[0].encryptionType",
        ("AES256", GONE),
    ),
    ProtectedProperty(
        "data-stores-encrypted",
        "aws:dynamodb/table:Table",
        {"serverSideEncryption": {"enabled": True, "kmsKeyArn": KEY}},
        "serverSideEncryption.enabled",
        OFF,
    ),
    ProtectedProperty(
        "data-stores-encrypted", "aws:backup/vault:Vault", {"kmsKeyArn": KEY}, "kmsKeyArn", NO_KEY
    ),
    *(
        ProtectedProperty(
            "data-stores-encrypted",
            kind,
            {"storageEncrypted": True, "kmsKeyId": KEY},
            "storageEncrypted",
            OFF,
        )
        for kind in ("aws:rds/instance:Instance", "aws:rds/cluster:Cluster")
    ),
    ProtectedProperty(
        "eks-secrets-encrypted",
        CLUSTER,
        {"encryptionConfig": {"provider": {"keyArn": KEY}, "resources": ["secrets"]}},
        "encryptionConfig.provider.keyArn",
        NO_KEY,
    ),
    ProtectedProperty(
        "eks-secrets-encrypted",
        CLUSTER,
        {"encryptionConfig": {"provider": {"keyArn": KEY}, "resources": ["secrets"]}},
        "encryptionConfig.resources",
        ([], ["configmaps"], GONE),
    ),
    ProtectedProperty(
        "kms-rotation", "aws:kms/key:Key", {"enableKeyRotation": True}, "enableKeyRotation", OFF
    ),
    ProtectedProperty(
        "kms-rotation",
        "aws:kms/key:Key",
        {"enableKeyRotation": True, "rotationPeriodInDays": 365},
        "rotationPeriodInDays",
        (366, 2560, "never"),
    ),
    ProtectedProperty(
        "kms-deletion-window",
        "aws:kms/key:Key",
        {"deletionWindowInDays": 30},
        "deletionWindowInDays",
        (7, 29, 0),
    ),
    ProtectedProperty(
        "kms-deletion-window",
        "aws:kms/replicaKey:ReplicaKey",
        {"bypassPolicyLockoutSafetyCheck": False},
        "bypassPolicyLockoutSafetyCheck",
        (True, "true"),
    ),
    ProtectedProperty(
        "eks-endpoint-private", CLUSTER, PRIVATE, "vpcConfig.endpointPublicAccess", (True, "true", GONE, "")
    ),
    ProtectedProperty("eks-endpoint-private", CLUSTER, PRIVATE, "vpcConfig.endpointPrivateAccess", OFF),
    ProtectedProperty("eks-endpoint-private", CLUSTER, PRIVATE, "vpcConfig", (GONE,)),
    ProtectedProperty(
        "eks-endpoint-private",
        CLUSTER,
        NAMED,
        "vpcConfig.publicAccessCidrs",
        (
            ["0.0.0.0/0"],
            ["0.0.0.0/1", "128.0.0.0/1"],
            ["198.51.100.0/24", "0.0.0.0/0"],
            ["::/0"],
            [f"{first}.0.0.0/8" for first in range(256)],
            ["anywhere"],
            [UNKNOWN],
            [],
            GONE,
        ),
    ),
    ProtectedProperty(
        "eks-control-plane-logs",
        CLUSTER,
        {"enabledClusterLogTypes": ["api", "audit", "authenticator", "controllerManager", "scheduler"]},
        "enabledClusterLogTypes",
        (["api", "audit", "authenticator", "controllerManager"], [], "audit", GONE),
    ),
    ProtectedProperty(
        "eks-version-offered", CLUSTER, {"version": "1.35"}, "version", ("1.24", "1.29", "2.0", "", GONE)
    ),
    ProtectedProperty(
        "no-public-ip",
        TEMPLATE,
        {"networkInterfaces": [{"associatePublicIpAddress": "false"}]},
        "networkInterfaces[0].associatePublicIpAddress",
        (True, "true", "TRUE", ""),
    ),
    *(
        ProtectedProperty(
            "no-public-ip",
            kind,
            {"associatePublicIpAddress": False},
            "associatePublicIpAddress",
            (True, "true"),
        )
        for kind in (INSTANCE, SPOT, CONFIGURATION)
    ),
    ProtectedProperty(
        "no-public-ip",
        "aws:ec2/subnet:Subnet",
        {"mapPublicIpOnLaunch": False},
        "mapPublicIpOnLaunch",
        (True, "true"),
    ),
    ProtectedProperty(
        "no-public-ip",
        "aws:ec2/defaultSubnet:DefaultSubnet",
        {"mapPublicIpOnLaunch": False},
        "mapPublicIpOnLaunch",
        (True, GONE),
    ),
    *(
        ProtectedProperty(
            "bucket-public-access-blocked",
            "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
            {"bucket": "b", **BLOCK},
            switch,
            OFF,
            (BUCKET,),
        )
        for switch in BLOCK
    ),
    ProtectedProperty(
        "bucket-public-access-blocked",
        "aws:s3/accountPublicAccessBlock:AccountPublicAccessBlock",
        BLOCK,
        "blockPublicPolicy",
        OFF,
    ),
    ProtectedProperty(
        "bucket-public-access-blocked",
        "aws:s3/accessPoint:AccessPoint",
        {"publicAccessBlockConfiguration": dict(BLOCK)},
        "publicAccessBlockConfiguration.blockPublicPolicy",
        (False, "false"),
    ),
    *(
        ProtectedProperty(
            "bucket-no-public-acl", kind, {"acl": "private"}, "acl", ("public-read", "Public-Read-Write", "")
        )
        for kind in (
            "aws:s3/bucket:Bucket",
            "aws:s3/bucketV2:BucketV2",
            "aws:s3/bucketAcl:BucketAcl",
            "aws:s3/bucketAclV2:BucketAclV2",
            "aws:s3/bucketObject:BucketObject",
            "aws:s3/bucketObjectv2:BucketObjectv2",
            "aws:s3/objectCopy:ObjectCopy",
        )
    ),
    ProtectedProperty(
        "bucket-owner-enforced",
        "aws:s3/bucketOwnershipControls:BucketOwnershipControls",
        {"bucket": "b", "rule": {"objectOwnership": "BucketOwnerEnforced"}},
        "rule.objectOwnership",
        ("ObjectWriter", "BucketOwnerPreferred", "", GONE),
        (BUCKET,),
    ),
    ProtectedProperty(
        "bucket-versioning",
        "aws:s3/bucketVersioning:BucketVersioning",
        {"bucket": "b", "versioningConfiguration": {"status": "Enabled"}},
        "versioningConfiguration.status",
        ("Suspended", "Disabled", "enabled", GONE),
        (BUCKET,),
    ),
    *(
        ProtectedProperty("no-open-ingress", INGRESS, CIDR, "cidrIpv4", WORLD),
        ProtectedProperty(
            "no-open-ingress",
            "aws:ec2/securityGroupRule:SecurityGroupRule",
            {"type": "ingress", "protocol": "tcp", "cidrBlocks": ["203.0.113.0/24"]},
            "cidrBlocks[0]",
            WORLD,
            ignored=False,
        ),
        ProtectedProperty(
            "no-open-ingress",
            "aws:ec2/securityGroup:SecurityGroup",
            {"ingress": [{"protocol": "-1", "ipv6CidrBlocks": ["2001:db8::/32"]}]},
            "ingress[0].ipv6CidrBlocks[0]",
            WORLD,
        ),
        ProtectedProperty(
            "no-open-ingress",
            "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
            {"ingress": [{"protocol": "tcp", "cidrBlocks": ["203.0.113.0/24"]}]},
            "ingress[0].cidrBlocks[0]",
            WORLD,
        ),
    ),
    ProtectedProperty(
        "default-security-group-closed",
        "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
        {"ingress": []},
        "ingress",
        ([{"protocol": "-1", "self": True}],),
    ),
    ProtectedProperty(
        "vpc-flow-logs",
        "aws:ec2/flowLog:FlowLog",
        {"trafficType": "ALL"},
        "trafficType",
        ("REJECT", "ACCEPT", "", GONE),
        ({"type": "aws:ec2/vpc:Vpc", "name": "vpc"},),
        {"vpcId": ["vpc"]},
    ),
    ProtectedProperty(
        "storage-protected",
        "aws:s3/bucket:Bucket",
        {"forceDestroy": False},
        "forceDestroy",
        (True, "true"),
        options={"protect": True},
    ),
    ProtectedProperty("storage-protected", CLUSTER, PRIVATE, "deletionProtection", OFF),
    ProtectedProperty(
        "file-systems-backed-up",
        LUSTRE,
        {"deploymentType": "PERSISTENT_2", "automaticBackupRetentionDays": 7, "skipFinalBackup": False},
        "automaticBackupRetentionDays",
        (0, GONE, "7"),
    ),
    ProtectedProperty(
        "file-systems-backed-up",
        LUSTRE,
        {"deploymentType": "PERSISTENT_2", "automaticBackupRetentionDays": 7, "skipFinalBackup": False},
        "skipFinalBackup",
        (True, "true", GONE),
    ),
    ProtectedProperty(
        "secrets-rotated",
        "aws:secretsmanager/secretRotation:SecretRotation",
        {"rotationRules": {"automaticallyAfterDays": 30}},
        "rotationRules.automaticallyAfterDays",
        (91, 0, GONE),
        ({"type": "aws:secretsmanager/secret:Secret", "name": "secret"},),
        {"secretId": ["secret"]},
    ),
]


def _id(case: ProtectedProperty) -> str:
    return f"{case.rule}-{case.type.rpartition(':')[2]}-{case.path}"


def _ids(cases: list[tuple[ProtectedProperty, Any]]) -> list[str]:
    return [f"{_id(case)}-{'unset' if bad is GONE else repr(bad)[:30]}" for case, bad in cases]


WEAKENED = [(case, bad) for case in CASES for bad in case.bad]
every = pytest.mark.parametrize("case", CASES, ids=_id)


@every
def test_resource_with_the_property_passes(case: ProtectedProperty, ask: Ask) -> None:
    assert [each.message for each in ask(case.rule, *case.others, case.resource())] == []


@pytest.mark.parametrize(("case", "bad"), WEAKENED, ids=_ids(WEAKENED))
def test_weakened_property_is_found_at_its_path(case: ProtectedProperty, bad: Any, ask: Ask) -> None:
    found = ask(case.rule, *case.others, case.resource(bad))
    assert found
    assert {each.urn.rpartition("::")[2] for each in found} <= {"judged", "bucket"}


@pytest.mark.parametrize("case", [each for each in CASES if each.unknown_is_bad], ids=_id)
def test_unknown_property_fails_closed_and_is_reported_as_unknown(case: ProtectedProperty, ask: Ask) -> None:
    found = ask(case.rule, *case.others, case.resource(UNKNOWN))
    assert any(each.violation.unknown for each in found)
    assert any("not known yet" in each.message for each in found)


@pytest.mark.parametrize("case", [each for each in CASES if each.ignored], ids=_id)
@pytest.mark.parametrize("whole", [False, True], ids=["the path", "the whole property"])
def test_property_under_ignore_changes_is_found(case: ProtectedProperty, whole: bool, ask: Ask) -> None:
    path = re.split(r"[.\[]", case.path)[0] if whole else case.path
    options = {**case.options, "ignoreChanges": [path]}
    found = ask(case.rule, *case.others, case.resource(options=options))
    assert any("ignoreChanges" in each.message for each in found)


@every
def test_nested_component_hides_nothing(case: ProtectedProperty, ask: Ask) -> None:
    parent = {"type": "other:module:Component", "name": "outer"}
    inner = {"type": "other:module:Component", "name": "inner", "parent": "outer"}
    found = ask(case.rule, parent, inner, *case.others, case.resource(case.bad[0], parent="inner"))
    assert found


@every
def test_provider_of_another_region_hides_nothing(case: ProtectedProperty, ask: Ask) -> None:
    assert ask(case.rule, *case.others, case.resource(case.bad[0], region="eu-central-1"))
    props = {**case.resource(case.bad[0])["props"], "region": "eu-central-1"}
    assert ask(case.rule, *case.others, {**case.resource(), "props": props})


@pytest.mark.parametrize(
    ("case", "bad"),
    [(c, b) for c, b in WEAKENED if isinstance(b, str) and b.strip() and b not in ("true", "false")],
)
def test_secret_value_is_judged_and_not_shown(case: ProtectedProperty, bad: str, ask: Ask) -> None:
    found = ask(case.rule, *case.others, case.resource(bad, secrets=[case.path]))
    assert found
    shown = [re.sub(r", and .*", "", each.violation.message) for each in found]
    assert all(f"is {bad!r}" not in each for each in shown)
    assert any("[secret]" in each.message for each in found)
