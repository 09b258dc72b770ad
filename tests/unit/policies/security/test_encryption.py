"""Encryption in a preview, where a key's ARN is unknown, and special cases of AWS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from gpufleet.policies.rules.security._properties import region_of, require
from gpufleet.policy.evaluation import RuleViolation
from gpufleet.policy.examples import policy_context, resource
from gpufleet.resources.resource import UNKNOWN, ProviderInstance

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]

KEY: Described = {"type": "aws:kms/key:Key", "name": "key"}
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
LUSTRE = "aws:fsx/lustreFileSystem:LustreFileSystem"
DEFAULT: Described = {
    "type": "aws:ebs/encryptionByDefault:EncryptionByDefault",
    "name": "default",
    "props": {"enabled": True},
}
PLAIN: Described = {
    "type": TEMPLATE,
    "name": "plain",
    "props": {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": 100}}]},
}


@pytest.mark.parametrize(
    ("rule", "kind", "props", "prop"),
    [
        ("log-groups-encrypted", "aws:cloudwatch/logGroup:LogGroup", {"kmsKeyId": UNKNOWN}, "kmsKeyId"),
        ("topics-encrypted", "aws:sns/topic:Topic", {"kmsMasterKeyId": UNKNOWN}, "kmsMasterKeyId"),
        ("queues-encrypted", "aws:sqs/queue:Queue", {"kmsMasterKeyId": UNKNOWN}, "kmsMasterKeyId"),
        (
            "file-systems-encrypted",
            LUSTRE,
            {"deploymentType": "PERSISTENT_1", "kmsKeyId": UNKNOWN},
            "kmsKeyId",
        ),
        ("ebs-encrypted", "aws:ebs/volume:Volume", {"encrypted": True, "kmsKeyId": UNKNOWN}, "kmsKeyId"),
        (
            "eks-secrets-encrypted",
            "aws:eks/cluster:Cluster",
            {"encryptionConfig": {"provider": {"keyArn": UNKNOWN}, "resources": ["secrets"]}},
            "encryptionConfig",
        ),
    ],
)
@pytest.mark.parametrize("key", ["aws:kms/key:Key", "aws:kms/alias:Alias", "aws:kms/replicaKey:ReplicaKey"])
def test_new_key_counts_if_the_property_is_computed_from_it(
    ask: Ask, rule: str, kind: str, props: dict[str, Any], prop: str, key: str
) -> None:
    made = {"type": key, "name": "key"}
    other = {"type": "aws:sns/topic:Topic", "name": "other", "props": {"kmsMasterKeyId": "alias/a"}}
    judged = {"type": kind, "name": "judged", "props": props}
    assert ask(rule, made, {**judged, "depends": {prop: ["key"]}}) == []
    (elsewhere,) = ask(rule, made, {**judged, "depends": {"tags": ["key"]}})
    assert elsewhere.violation.unknown
    assert ask(rule, other, {**judged, "depends": {prop: ["other"]}})


@pytest.mark.parametrize(
    ("rule", "kind", "prop", "allowed"),
    [
        ("queues-encrypted", "aws:sqs/queue:Queue", "kmsMasterKeyId", True),
        ("topics-encrypted", "aws:sns/topic:Topic", "kmsMasterKeyId", True),
        ("log-groups-encrypted", "aws:cloudwatch/logGroup:LogGroup", "kmsKeyId", False),
    ],
)
@pytest.mark.parametrize("key", ["alias/aws/sqs", "arn:aws:kms:us-east-1:123456789012:ALIAS/AWS/sqs"])
def test_key_of_aws_counts_only_where_it_is_allowed(
    ask: Ask, rule: str, kind: str, prop: str, allowed: bool, key: str
) -> None:
    assert (ask(rule, {"type": kind, "props": {prop: key}}) == []) is allowed
    assert ask(rule, {"type": kind, "props": {prop: "alias/own"}}) == []
    assert ask(rule, {"type": kind, "props": {prop: " "}})


def test_region_is_that_of_the_resource_of_its_provider_or_of_the_stack() -> None:
    shared = policy_context(config={"aws:region": "us-east-1"})
    provider = ProviderInstance("pulumi:providers:aws", "aws", "urn", {"region": "us-west-2"})
    of_provider = replace(resource({"type": TEMPLATE}), provider=provider)
    own = replace(of_provider, props={"region": "eu-west-1"})
    assert region_of(own, shared) == "eu-west-1"
    assert region_of(of_provider, shared) == "us-west-2"
    assert region_of(replace(of_provider, provider=replace(provider, props={})), shared) == "us-east-1"
    assert region_of(replace(of_provider, provider=None), shared) == "us-east-1"


def test_unknown_value_is_accepted_by_no_rule() -> None:
    hidden = resource({"type": TEMPLATE, "props": {"name": UNKNOWN}})
    (found,) = require(hidden, "name", lambda _: True, "it must be known", "write it")
    assert found.unknown


@pytest.mark.parametrize("kind", ["SCRATCH_1", "SCRATCH_2", None])
def test_scratch_file_systems_support_and_need_no_key(ask: Ask, kind: str | None) -> None:
    props: dict[str, Any] = {} if kind is None else {"deploymentType": kind}
    assert ask("file-systems-encrypted", {"type": LUSTRE, "props": props}) == []


def test_unknown_deployment_type_needs_a_key(ask: Ask) -> None:
    assert ask("file-systems-encrypted", {"type": LUSTRE, "props": {"deploymentType": UNKNOWN}})


def test_launch_template_without_a_root_device_uses_that_of_the_image(ask: Ask) -> None:
    other = {"blockDeviceMappings": [{"deviceName": "/dev/sdb", "ebs": {"encrypted": True}}]}
    silent: list[dict[str, Any]] = [{}, {"blockDeviceMappings": []}, other]
    for props in silent:
        (found,) = ask("ebs-encrypted", {"type": TEMPLATE, "props": props})
        assert "root device" in found.message
    settings = {"root_devices": ["/dev/sdb"]}
    assert ask("ebs-encrypted", {"type": TEMPLATE, "props": other}, settings=settings) == []


def test_instance_without_a_root_device_or_template_is_found(ask: Ask) -> None:
    kind = "aws:ec2/instance:Instance"
    assert ask("ebs-encrypted", {"type": kind, "props": {}})
    assert ask("ebs-encrypted", {"type": kind, "props": {"launchTemplate": {"id": "lt-1"}}}) == []
    extra = {"launchTemplate": {"id": "lt-1"}, "ebsBlockDevices": [{"encrypted": False}]}
    assert ask("ebs-encrypted", {"type": kind, "props": extra})


def test_each_specification_of_a_spot_fleet_is_judged(ask: Ask) -> None:
    kind = "aws:ec2/spotFleetRequest:SpotFleetRequest"
    good = {"rootBlockDevices": [{"encrypted": True}]}
    assert ask("ebs-encrypted", {"type": kind, "props": {"launchSpecifications": [good]}}) == []
    assert ask("ebs-encrypted", {"type": kind, "props": {"launchSpecifications": [good, {}]}})


def test_default_encryption_covers_its_region_except_explicit_opt_outs(ask: Ask) -> None:
    assert ask("ebs-encrypted", DEFAULT, PLAIN) == []
    assert ask("ebs-encrypted", DEFAULT, {**PLAIN, "region": "us-west-2"})
    own = {**PLAIN, "props": {**PLAIN["props"], "region": "us-west-2"}}
    assert ask("ebs-encrypted", DEFAULT, own)
    explicit = {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"encrypted": "false"}}]}
    assert ask("ebs-encrypted", DEFAULT, {**PLAIN, "props": explicit})


def test_default_encryption_is_on_if_it_is_declared_and_covers_no_unknown_region(ask: Ask) -> None:
    assert ask("ebs-encrypted", {**DEFAULT, "props": {}}, PLAIN) == []
    unknown = {"region": UNKNOWN}
    hidden = {**DEFAULT, "props": {"enabled": True, **unknown}}
    assert ask("ebs-encrypted", hidden, {**PLAIN, "props": {**PLAIN["props"], **unknown}})


@pytest.mark.parametrize(
    ("kind", "props"), [("aws:eks/nodeGroup:NodeGroup", {}), ("aws:ec2/instance:Instance", {})]
)
def test_default_encryption_covers_what_launches_without_a_template(
    ask: Ask, kind: str, props: dict[str, Any]
) -> None:
    node = {"type": kind, "name": "node", "props": props}
    templated = {**node, "props": {"launchTemplate": {"id": "lt-1"}}}
    (found,) = ask("ebs-encrypted", node)
    assert found.violation.prop == ("launchTemplate" if "eks" in kind else "rootBlockDevice")
    assert ask("ebs-encrypted", DEFAULT, node) == []
    assert ask("ebs-encrypted", templated) == []
    assert ask("ebs-encrypted", DEFAULT, templated) == []


@pytest.mark.parametrize(
    ("mapping", "found"),
    [({"deviceName": "/dev/sdc", "virtualName": "ephemeral0"}, False), (UNKNOWN, True)],
)
def test_mapping_without_a_volume_needs_no_encryption(ask: Ask, mapping: Any, found: bool) -> None:
    root = {"deviceName": "/dev/xvda", "ebs": {"encrypted": True}}
    template = {"type": TEMPLATE, "props": {"blockDeviceMappings": [root, mapping]}}
    assert bool(ask("ebs-encrypted", template)) is found


def test_disabled_default_encryption_covers_nothing(ask: Ask) -> None:
    off = {**DEFAULT, "props": {"enabled": False}}
    assert {each.urn.rpartition("::")[2] for each in ask("ebs-encrypted", off, PLAIN)} == {"default", "plain"}


def test_setting_allows_the_aws_managed_key_for_volumes(ask: Ask) -> None:
    volume = {"type": "aws:ebs/volume:Volume", "props": {"encrypted": True}}
    assert ask("ebs-encrypted", volume)
    assert ask("ebs-encrypted", volume, settings={"volume_key": False}) == []


def test_only_listed_algorithms_pass_for_a_bucket(ask: Ask) -> None:
    bucket = {"type": "aws:s3/bucket:Bucket", "name": "bucket", "props": {"bucket": "b"}}
    inline = {
        "rule": {"applyServerSideEncryptionByDefault": {"sseAlgorithm": "AES256"}},
    }
    described = {**bucket, "props": {"bucket": "b", "serverSideEncryptionConfiguration": inline}}
    assert ask("buckets-encrypted", described) == []
    assert ask("buckets-encrypted", described, settings={"algorithms": ["aws:kms"]})


def test_plain_parameter_passes_if_marked_as_not_secret(ask: Ask) -> None:
    kind = "aws:ssm/parameter:Parameter"
    both = {"type": "String", "insecureValue": "ami-1", "value": "secret"}
    assert (
        ask("secrets-encrypted", {"type": kind, "props": {"type": "String", "insecureValue": "ami-1"}}) == []
    )
    assert ask("secrets-encrypted", {"type": kind, "props": both})
    assert ask("secrets-encrypted", {"type": kind, "props": {"type": "String"}})


@pytest.mark.parametrize(
    ("schedule", "fine"),
    [
        ("rate(30 days)", True),
        ("rate(12 hours)", True),
        ("cron(0 4 1 * ? *)", True),
        (" Rate(90 Days)", True),
        ("rate(100 hours)", True),
        ("rate(91 days)", False),
        ("rate(2161 hours)", False),
        ("rate(30)", False),
        ("rate(30 weeks)", False),
        ("rate(30 days ago)", False),
        ("rate(few days)", False),
        ("", False),
        ("rate(99999 hours)", False),
        ("never", False),
        (UNKNOWN, False),
    ],
)
def test_rotation_schedule_is_judged_by_its_interval(ask: Ask, schedule: Any, fine: bool) -> None:
    secret = {"type": "aws:secretsmanager/secret:Secret", "name": "secret"}
    rotation = {
        "type": "aws:secretsmanager/secretRotation:SecretRotation",
        "name": "rotation",
        "props": {"rotationRules": {"scheduleExpression": schedule}},
        "depends": {"secretId": ["secret"]},
    }
    assert (ask("secrets-rotated", secret, rotation) == []) is fine


@pytest.mark.parametrize(("days", "fine"), [(90, True), (91, False), (1, True), (0, False), ("30", False)])
def test_days_of_a_rotation_count_before_its_schedule(ask: Ask, days: Any, fine: bool) -> None:
    secret = {"type": "aws:secretsmanager/secret:Secret", "name": "secret"}
    rules = {"automaticallyAfterDays": days, "scheduleExpression": "rate(30 days)"}
    rotation = {
        "type": "aws:secretsmanager/secretRotation:SecretRotation",
        "name": "rotation",
        "props": {"rotationRules": rules},
        "depends": {"secretId": ["secret"]},
    }
    assert (ask("secrets-rotated", secret, rotation) == []) is fine


def test_secret_without_rotation_is_found_beside_a_rotated_one(ask: Ask) -> None:
    kind = "aws:secretsmanager/secret:Secret"
    rotation = {
        "type": "aws:secretsmanager/secretRotation:SecretRotation",
        "name": "rotation",
        "props": {"rotationRules": {"automaticallyAfterDays": 30}},
        "depends": {"secretId": ["one"]},
    }
    (found,) = ask("secrets-rotated", {"type": kind, "name": "one"}, {"type": kind, "name": "two"}, rotation)
    assert found.urn.endswith("::two")


def test_keys_without_kms_rotation_are_skipped_and_imported_ones_are_found(ask: Ask) -> None:
    kind = "aws:kms/key:Key"
    signing = {"keyUsage": "SIGN_VERIFY", "customerMasterKeySpec": "RSA_2048"}
    assert ask("kms-rotation", {"type": kind, "props": signing}) == []
    assert ask("kms-rotation", {"type": kind, "props": {"keyUsage": UNKNOWN}})
    assert ask("kms-rotation", {"type": kind, "props": {"customerMasterKeySpec": UNKNOWN}})
    (imported,) = ask("kms-rotation", {"type": "aws:kms/externalKey:ExternalKey"})
    assert "material is imported" in imported.message


def test_setting_allows_logs_without_expiry(ask: Ask) -> None:
    kind = "aws:cloudwatch/logGroup:LogGroup"
    for props in ({}, {"retentionInDays": 0}):
        assert ask("log-retention", {"type": kind, "props": props})
        assert ask("log-retention", {"type": kind, "props": props}, settings={"forever": True}) == []
    assert ask("log-retention", {"type": kind, "props": {"retentionInDays": 30}}, settings={"days": 30}) == []
    assert ask("log-retention", {"type": kind, "props": {"retentionInDays": "x"}}, settings={"forever": True})


def test_key_has_an_inline_policy_or_a_separate_one(ask: Ask) -> None:
    other = {"type": "aws:kms/key:Key", "name": "other"}
    policy = {
        "type": "aws:kms/keyPolicy:KeyPolicy",
        "name": "policy",
        "props": {"policy": UNKNOWN},
        "depends": {"keyId": ["key"]},
    }
    (found,) = ask("kms-policy-stated", KEY, other, policy)
    assert found.urn.endswith("::other")
    assert ask("kms-policy-stated", {**KEY, "props": {"policy": UNKNOWN}}) == []
    assert ask("kms-policy-stated", {**KEY, "props": {"policy": " "}})
    for stated in ('{"Statement": []}', {"Statement": []}):
        assert ask("kms-policy-stated", {**KEY, "props": {"policy": stated}}) == []


def test_waiting_period_of_a_key_is_a_number_of_days(ask: Ask) -> None:
    for days, found in ((30, False), ("30", True), (UNKNOWN, True)):
        assert bool(ask("kms-deletion-window", {**KEY, "props": {"deletionWindowInDays": days}})) is found
