"""Broken copies of prod's resources: for each checkov check, the smallest change that fails it."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack

BUCKET = "aws:s3/bucket:Bucket"
BUCKET_BLOCK = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
CLUSTER = "aws:eks/cluster:Cluster"
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
LOG_GROUP = "aws:cloudwatch/logGroup:LogGroup"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"

NOTHING = object()
"""As a value: the property is left out."""


@dataclass(frozen=True)
class FailingCase:
    """One checkov check and a change of the first resource of `type` (after `where`) that fails it.

    `change` maps property paths to values. `without` are types whose resources are left out, `new`
    means that prod has no such resource and only `change` defines it, `graph` that the
    check needs related resources.
    """

    check: str
    type: str
    change: Mapping[str, Any] = field(default_factory=dict)
    where: Mapping[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    new: bool = False
    graph: bool = False

    @property
    def name(self) -> str:
        """Name of the test case."""
        return f"{self.check}-{self.type.rpartition(':')[2]}-{'-'.join(self.change) or 'left out'}"

    def of(self, stack: Stack) -> tuple[Stack, Resource]:
        """The stack with the broken copy in place of the resource, and that copy."""
        template = next(
            each
            for each in stack.of_type(BUCKET if self.new else self.type)
            if all(each.get(path) == value for path, value in self.where.items())
        )
        props = {} if self.new else copy.deepcopy(dict(template.props))
        for path, value in self.change.items():
            _set(props, path.split("."), value)
        made = replace(template, props=props, inputs=props)
        if self.new:
            made = replace(
                made, type=self.type, name="broken", urn=f"{template.urn}-broken", property_dependencies={}
            )
        kept = [each for each in stack if each.urn != made.urn and each.type not in self.without]
        return Stack([*kept, made]), made


def _set(props: dict[str, Any], path: list[str], value: Any) -> None:
    head, *rest = path
    if rest:
        inner = props.setdefault(head, {})
        _set(inner[0] if isinstance(inner, list) else inner, rest, value)
    elif value is NOTHING:
        props.pop(head, None)
    else:
        props[head] = value


def _policy(**statement: Any) -> dict[str, str]:
    return {"policy": json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]})}


def _open(port: int) -> dict[str, Any]:
    return {
        "cidrIpv4": "0.0.0.0/0",
        "ipProtocol": "tcp",
        "fromPort": port,
        "toPort": port,
        "referencedSecurityGroupId": NOTHING,
    }


KEY_IN_USER_DATA = "export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

BROKEN = (
    FailingCase(
        "CKV_AWS_3", "aws:ebs/volume:Volume", {"availabilityZone": "us-east-1a", "size": 8}, new=True
    ),
    FailingCase("CKV_AWS_7", "aws:kms/key:Key", {"enableKeyRotation": False}),
    FailingCase(
        "CKV_AWS_19",
        "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
        {"rules.applyServerSideEncryptionByDefault.sseAlgorithm": "none"},
        graph=True,
    ),
    FailingCase("CKV_AWS_20", BUCKET, {"acl": "public-read"}),
    FailingCase("CKV_AWS_21", BUCKET, {}, without=("aws:s3/bucketVersioning:BucketVersioning",)),
    FailingCase("CKV_AWS_24", INGRESS, _open(22)),
    FailingCase("CKV_AWS_25", INGRESS, _open(3389)),
    FailingCase("CKV_AWS_26", "aws:sns/topic:Topic", {"kmsMasterKeyId": NOTHING}),
    FailingCase("CKV_AWS_27", "aws:sqs/queue:Queue", {"name": "q", "sqsManagedSseEnabled": False}, new=True),
    FailingCase("CKV_AWS_37", CLUSTER, {"enabledClusterLogTypes": ["api"]}),
    FailingCase(
        "CKV_AWS_38",
        CLUSTER,
        {"vpcConfig.endpointPublicAccess": True, "vpcConfig.publicAccessCidrs": ["0.0.0.0/0"]},
    ),
    FailingCase("CKV_AWS_39", CLUSTER, {"vpcConfig.endpointPublicAccess": True}),
    FailingCase("CKV_AWS_46", TEMPLATE, {"userData": KEY_IN_USER_DATA}),
    FailingCase("CKV_AWS_53", BUCKET_BLOCK, {"blockPublicAcls": False}),
    FailingCase("CKV_AWS_54", BUCKET_BLOCK, {"blockPublicPolicy": False}),
    FailingCase("CKV_AWS_55", BUCKET_BLOCK, {"ignorePublicAcls": False}),
    FailingCase("CKV_AWS_56", BUCKET_BLOCK, {"restrictPublicBuckets": False}),
    FailingCase("CKV_AWS_57", BUCKET, {"acl": "public-read-write"}),
    FailingCase("CKV_AWS_58", CLUSTER, {"encryptionConfig": NOTHING}),
    FailingCase("CKV_AWS_62", ROLE_POLICY, _policy(Action="*", Resource="*")),
    FailingCase("CKV_AWS_63", ROLE_POLICY, _policy(Action=["*"], Resource="*")),
    FailingCase("CKV_AWS_66", LOG_GROUP, {"retentionInDays": NOTHING}),
    FailingCase("CKV_AWS_79", TEMPLATE, {"metadataOptions.httpTokens": "optional"}),
    FailingCase("CKV_AWS_88", TEMPLATE, {"networkInterfaces.associatePublicIpAddress": "true"}),
    FailingCase("CKV_AWS_100", NODE_GROUP, {"remoteAccess": {"ec2SshKey": "ops"}}),
    FailingCase("CKV_AWS_130", "aws:ec2/subnet:Subnet", {"mapPublicIpOnLaunch": True}),
    FailingCase(
        "CKV_AWS_145",
        BUCKET,
        {},
        without=("aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",),
    ),
    FailingCase("CKV_AWS_149", "aws:secretsmanager/secret:Secret", {"name": "s"}, new=True),
    FailingCase("CKV_AWS_158", LOG_GROUP, {"kmsKeyId": NOTHING}),
    FailingCase(
        "CKV_AWS_189",
        "aws:ebs/volume:Volume",
        {"availabilityZone": "us-east-1a", "size": 8, "encrypted": True},
        new=True,
    ),
    FailingCase(
        "CKV_AWS_190",
        "aws:fsx/lustreFileSystem:LustreFileSystem",
        {"kmsKeyId": NOTHING},
        where={"deploymentType": "PERSISTENT_2"},
    ),
    FailingCase("CKV_AWS_260", INGRESS, _open(80)),
    FailingCase(
        "CKV_AWS_277",
        INGRESS,
        {**_open(-1), "ipProtocol": "-1"},
    ),
    FailingCase("CKV_AWS_339", CLUSTER, {"version": "1.22"}),
    FailingCase("CKV_AWS_341", TEMPLATE, {"metadataOptions.httpPutResponseHopLimit": 2}),
    FailingCase("CKV2_AWS_6", BUCKET, {}, without=(BUCKET_BLOCK,)),
    FailingCase("CKV2_AWS_64", "aws:kms/key:Key", {"policy": NOTHING}, graph=True),
    FailingCase("CKV2_AWS_11", "aws:ec2/vpc:Vpc", {}, without=("aws:ec2/flowLog:FlowLog",)),
)

OURS_ALONE = (
    FailingCase(
        "CKV_AWS_277",
        INGRESS,
        {"cidrIpv4": "0.0.0.0/0", "ipProtocol": "-1", "referencedSecurityGroupId": NOTHING},
    ),
    FailingCase("CKV_AWS_24", INGRESS, {**_open(22), "cidrIpv4": NOTHING, "cidrIpv6": "::/0"}),
)
"""Violations that checkov's check misses and gpufleet's rules find."""
