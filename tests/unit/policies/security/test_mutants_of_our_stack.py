"""The program's stack with one protection removed at a time: a rule finds each, in a preview."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpufleet.policy.evaluation import RuleEvaluator
from gpufleet.policy.examples import DAY
from gpufleet.policy.fleet import open_stack
from gpufleet.policy.pack import load_rules
from gpufleet.policy.settings import configure
from gpufleet.resources.launches import declared
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack

ROOT = Path(__file__).resolve().parents[4]
RULES = load_rules(ROOT)
Found = set[str]

TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
CLUSTER = "aws:eks/cluster:Cluster"
SUBNET = "aws:ec2/subnet:Subnet"
KEY = "aws:kms/key:Key"
BUCKET = "aws:s3/bucket:Bucket"
LOGS = "aws:cloudwatch/logGroup:LogGroup"
LUSTRE = "aws:fsx/lustreFileSystem:LustreFileSystem"
WORLD = "0.0.0.0/0"

CHANGED = [
    (TEMPLATE, "metadataOptions.httpTokens", "optional", "imdsv2-required"),
    (TEMPLATE, "metadataOptions.httpPutResponseHopLimit", 2, "imdsv2-required"),
    (TEMPLATE, "metadataOptions", None, "imdsv2-required"),
    (TEMPLATE, "blockDeviceMappings[0].ebs.encrypted", "false", "ebs-encrypted"),
    (TEMPLATE, "blockDeviceMappings", None, "ebs-encrypted"),
    (TEMPLATE, "networkInterfaces[0].associatePublicIpAddress", "true", "no-public-ip"),
    ("aws:eks/nodeGroup:NodeGroup", "launchTemplate", None, "templates-known"),
    ("aws:eks/nodeGroup:NodeGroup", "remoteAccess", {"ec2SshKey": "k"}, "node-ssh-restricted"),
    (SUBNET, "mapPublicIpOnLaunch", True, "no-public-ip"),
    (KEY, "enableKeyRotation", False, "kms-rotation"),
    (KEY, "deletionWindowInDays", 7, "kms-deletion-window"),
    (KEY, "policy", None, "kms-policy-stated"),
    (
        KEY,
        "policy",
        '{"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "kms:*"}]}',
        "no-public-policies",
    ),
    (CLUSTER, "vpcConfig.endpointPublicAccess", True, "eks-endpoint-private"),
    (CLUSTER, "vpcConfig.endpointPrivateAccess", False, "eks-endpoint-private"),
    (CLUSTER, "encryptionConfig", None, "eks-secrets-encrypted"),
    (CLUSTER, "enabledClusterLogTypes", ["api"], "eks-control-plane-logs"),
    (CLUSTER, "deletionProtection", False, "storage-protected"),
    (CLUSTER, "version", "1.24", "eks-version-offered"),
    (BUCKET, "forceDestroy", True, "storage-protected"),
    (BUCKET, "acl", "public-read", "bucket-no-public-acl"),
    (LOGS, "kmsKeyId", None, "log-groups-encrypted"),
    (LOGS, "retentionInDays", 7, "log-retention"),
    (LUSTRE, "kmsKeyId", None, "file-systems-encrypted"),
    (LUSTRE, "skipFinalBackup", True, "file-systems-backed-up"),
    (LUSTRE, "automaticBackupRetentionDays", 0, "file-systems-backed-up"),
    ("aws:sns/topic:Topic", "kmsMasterKeyId", None, "topics-encrypted"),
    ("aws:ec2/flowLog:FlowLog", "trafficType", "REJECT", "vpc-flow-logs"),
    (
        "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
        "ingress",
        [{"protocol": "-1"}],
        "default-security-group-closed",
    ),
    ("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule", "cidrIpv4", WORLD, "no-open-ingress"),
    ("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule", "cidrIpv4", WORLD, "no-open-admin-ports"),
    ("aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule", "ipProtocol", "-1", "no-open-egress"),
    (
        "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
        "blockPublicPolicy",
        False,
        "bucket-public-access-blocked",
    ),
    (
        "aws:s3/bucketOwnershipControls:BucketOwnershipControls",
        "rule.objectOwnership",
        "ObjectWriter",
        "bucket-owner-enforced",
    ),
    ("aws:s3/bucketPolicy:BucketPolicy", "policy", '{"Statement": []}', "bucket-tls-only"),
    (
        "aws:s3/bucketVersioning:BucketVersioning",
        "versioningConfiguration.status",
        "Suspended",
        "bucket-versioning",
    ),
    (
        "aws:iam/role:Role",
        "assumeRolePolicy",
        '{"Statement": [{"Effect": "Allow", "Principal": "*"}]}',
        "iam-trust-restricted",
    ),
    (
        "aws:iam/role:Role",
        "managedPolicyArns",
        ["arn:aws:iam::aws:policy/AdministratorAccess"],
        "iam-no-admin-policies",
    ),
    (
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        "policyArn",
        "arn:aws:iam::aws:policy/PowerUserAccess",
        "iam-no-admin-policies",
    ),
    (
        "aws:iam/rolePolicy:RolePolicy",
        "policy",
        '{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}',
        "iam-no-wildcards",
    ),
]
REMOVED = [
    ("aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock", "", "bucket-public-access-blocked"),
    ("aws:s3/bucketPolicy:BucketPolicy", "", "bucket-tls-only"),
    ("aws:s3/bucketOwnershipControls:BucketOwnershipControls", "", "bucket-owner-enforced"),
    ("aws:s3/bucketVersioning:BucketVersioning", "", "bucket-versioning"),
    (
        "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
        "",
        "buckets-encrypted",
    ),
    ("aws:ec2/flowLog:FlowLog", "", "vpc-flow-logs"),
    ("aws:ec2/defaultSecurityGroup:DefaultSecurityGroup", "", "default-security-group-closed"),
    ("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule", "-efa-in-members", "efa-group-closed"),
    ("aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule", "-efa-out-members", "efa-group-closed"),
    (TEMPLATE, "", "templates-known"),
]


@pytest.fixture(scope="module")
def broken(emitted: Callable[[str], Stack]) -> Callable[[list[Resource]], Found]:
    """The names of security rules that a stack of prod breaks."""
    opened = open_stack(ROOT, "gpufleet", "prod", {}, preview=True, now=DAY)
    assert opened.loaded is not None
    configured = configure(list(RULES), opened.loaded.spec, opened.loaded.source)
    judge = RuleEvaluator([each for each in configured if each.rule.group == "security"], opened.shared)

    def names(resources: list[Resource]) -> Found:
        found = [*judge.stack(Stack(resources))]
        found += [each for resource in resources for each in judge.resource(declared(resource))]
        assert not [each.message for each in found if "the rule failed with" in each.message]
        return {each.rule.name for each in found}

    return names


def _changed(resource: Resource, path: str, value: Any) -> Resource:
    inputs = copy.deepcopy(dict(resource.inputs or {}))
    *parents, last = re.findall(r"[^.\[\]]+", path)
    target: Any = inputs
    for part in parents:
        target = target[int(part)] if isinstance(target, list) else target[part]
    if value is None:
        target.pop(last, None)
    else:
        target[last] = value
    return replace(resource, inputs=inputs, props={**resource.props, **inputs})


def _matching(stack: Stack, kind: str, path: str) -> list[Resource]:
    """The resources of the type of which the change makes something else."""
    return [each for each in stack.of_type(kind) if _is_protected(declared(each), path)]


def _is_protected(resource: Resource, path: str) -> bool:
    value = resource.get(path)
    if path.endswith("associatePublicIpAddress"):
        return value is not None
    if resource.type == LUSTRE:
        return value is False if path == "skipFinalBackup" else value not in (None, 0)
    if path == "cidrIpv4":
        return value is not None
    return path != "ipProtocol" or resource.get("cidrIpv4") == WORLD


@pytest.mark.parametrize(("kind", "path", "value", "rule"), CHANGED, ids=lambda each: str(each)[:60])
def test_each_weakened_property_of_prod_is_found(
    emitted: Callable[[str], Stack],
    broken: Callable[[list[Resource]], Found],
    kind: str,
    path: str,
    value: Any,
    rule: str,
) -> None:
    stack = emitted("prod")
    victims = _matching(stack, kind, path)
    assert victims
    # The first and the last are enough: a loop over hundreds would add nothing.
    for victim in {each.urn: each for each in (victims[0], victims[-1])}.values():
        weaker = [_changed(each, path, value) if each.urn == victim.urn else each for each in stack]
        # Port 443 is not an admin port: the range must include one of those ports.
        if rule == "no-open-admin-ports":
            weaker = [_changed(each, "fromPort", 22) if each.urn == victim.urn else each for each in weaker]
        assert rule in broken(weaker), victim.urn


@pytest.mark.parametrize(("kind", "ending", "rule"), REMOVED, ids=lambda each: str(each)[:60])
def test_each_removed_protective_resource_of_prod_is_found(
    emitted: Callable[[str], Stack],
    broken: Callable[[list[Resource]], Found],
    kind: str,
    ending: str,
    rule: str,
) -> None:
    stack = emitted("prod")
    victims = [each for each in stack.of_type(kind) if each.name.endswith(ending)]
    assert victims
    for victim in victims:
        assert rule in broken([each for each in stack if each.urn != victim.urn]), victim.urn


def test_protection_removed_from_storage_or_its_key_is_found(
    emitted: Callable[[str], Stack], broken: Callable[[list[Resource]], Found]
) -> None:
    stack = emitted("prod")
    victims = [each for each in stack if each.options.protect and each.type in (BUCKET, LUSTRE, KEY)]
    assert {each.type for each in victims} == {BUCKET, LUSTRE, KEY}
    for victim in victims:
        bare = replace(victim, options=replace(victim.options, protect=False))
        found = broken([bare if each.urn == victim.urn else each for each in stack])
        assert "storage-protected" in found, victim.urn


def test_extra_rule_on_the_efa_group_is_found(
    emitted: Callable[[str], Stack], broken: Callable[[list[Resource]], Found]
) -> None:
    stack = emitted("prod")
    inward = [
        each
        for each in stack.of_type("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule")
        if each.name.endswith("-efa-in-members")
    ]
    assert inward
    for rule in inward:
        depends = {"securityGroupId": rule.property_dependencies["securityGroupId"]}
        inputs = {**(rule.inputs or {}), "cidrIpv4": "10.0.0.0/8"}
        del inputs["referencedSecurityGroupId"]
        extra = replace(
            rule,
            urn=f"{rule.urn}-extra",
            name="extra",
            inputs=inputs,
            props=inputs,
            property_dependencies=depends,
        )
        assert "efa-group-closed" in broken([*stack, extra])
