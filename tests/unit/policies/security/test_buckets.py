"""Buckets and their configuration: found by name, by reference, not found, and duplicates."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.policy.evaluation import RuleViolation
from gpufleet.resources.resource import UNKNOWN

Ask = Callable[..., list[RuleViolation]]
Described = dict[str, Any]

BUCKET: Described = {"type": "aws:s3/bucket:Bucket", "name": "bucket", "props": {"bucket": "b"}}
OTHER: Described = {"type": "aws:s3/bucketV2:BucketV2", "name": "other", "props": {"bucket": "o"}}
POLICY = "aws:s3/bucketPolicy:BucketPolicy"
BLOCK = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
SWITCHES = dict.fromkeys(
    ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets"), True
)
TLS: dict[str, Any] = {
    "Effect": "Deny",
    "Principal": "*",
    "Action": "s3:*",
    "Resource": ["arn:aws:s3:::b", "arn:aws:s3:::b/*"],
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}
LIFECYCLE = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"


def policy(*statements: dict[str, Any], name: str = "policy") -> Described:
    text = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
    return {"type": POLICY, "name": name, "props": {"bucket": "b", "policy": text}}


def test_bucket_that_does_not_exist_yet_is_found_by_reference(ask: Ask) -> None:
    block = {
        "type": BLOCK,
        "name": "block",
        "props": {"bucket": UNKNOWN, **SWITCHES},
        "depends": {"bucket": ["bucket"]},
    }
    assert ask("bucket-public-access-blocked", BUCKET, block) == []
    (found,) = ask("bucket-public-access-blocked", BUCKET, OTHER, block)
    assert found.urn.endswith("::other")


def test_one_public_access_block_does_not_count_for_two_buckets(ask: Ask) -> None:
    block = {
        "type": BLOCK,
        "name": "block",
        "props": {"bucket": UNKNOWN, **SWITCHES},
        "depends": {"bucket": ["bucket", "other"]},
    }
    found = ask("bucket-public-access-blocked", BUCKET, OTHER, block)
    assert {each.urn.rpartition("::")[2] for each in found} == {"bucket", "other"}


def test_public_access_block_of_another_bucket_does_not_count(ask: Ask) -> None:
    block = {
        "type": BLOCK,
        "name": "block",
        "props": {"bucket": "somebody-elses", **SWITCHES},
        "depends": {"bucket": ["bucket"]},
    }
    assert ask("bucket-public-access-blocked", BUCKET, block)


@pytest.mark.parametrize(
    "rule",
    [
        "bucket-public-access-blocked",
        "bucket-tls-only",
        "bucket-owner-enforced",
        "bucket-versioning",
        "buckets-encrypted",
    ],
)
@pytest.mark.parametrize("bucket", [BUCKET, OTHER], ids=["bucket", "bucketV2"])
def test_unconfigured_bucket_is_found_under_either_type(ask: Ask, rule: str, bucket: Described) -> None:
    (found,) = ask(rule, bucket)
    assert found.urn.endswith(bucket["name"])


def test_policy_that_denies_plain_http_passes_inline_and_as_a_resource(ask: Ask) -> None:
    assert ask("bucket-tls-only", BUCKET, policy(TLS)) == []
    inline = {**BUCKET, "props": {"bucket": "b", "policy": json.dumps({"Statement": TLS})}}
    assert ask("bucket-tls-only", inline) == []


@pytest.mark.parametrize(
    "change",
    [
        {"Effect": "Allow"},
        {"Principal": {"AWS": "123456789012"}},
        {"Principal": {"Service": "*"}},
        {"Action": "s3:GetObject"},
        {"Resource": "arn:aws:s3:::b/*"},
        {"Resource": "arn:aws:s3:::b"},
        {"Resource": ["arn:aws:s3:::o", "arn:aws:s3:::o/*"]},
        {"Condition": {"Bool": {"aws:SecureTransport": "true"}}},
        {"Condition": {"Bool": {"aws:MultiFactorAuthPresent": "false"}}},
        {"Condition": {"Bool": {"aws:SecureTransport": ["true", "false"]}}},
        {"Condition": {"BoolIfExists": {"aws:SecureTransport": "maybe"}}},
        {"Condition": {"StringEquals": {"aws:SecureTransport": "false"}}},
        {"Condition": {"Bool": {"aws:SecureTransport": "false"}, "StringEquals": {"aws:SourceVpc": "vpc-1"}}},
        {"Condition": {"Bool": {"aws:SecureTransport": "false", "aws:ViaAWSService": "true"}}},
        {"Condition": {}},
    ],
)
def test_policy_that_denies_only_some_plain_http_is_found(ask: Ask, change: dict[str, Any]) -> None:
    assert ask("bucket-tls-only", BUCKET, policy({**TLS, **change}))


def test_elements_that_invert_the_denial_are_found(ask: Ask) -> None:
    for element in ("Action", "Resource", "Principal"):
        turned = {f"Not{key}" if key == element else key: value for key, value in TLS.items()}
        assert ask("bucket-tls-only", BUCKET, policy(turned))


def test_second_policy_is_found_since_it_replaces_the_first(ask: Ask) -> None:
    (found,) = ask("bucket-tls-only", BUCKET, policy(TLS), policy(TLS, name="second"))
    assert "2 policies" in found.message


def test_unknown_policy_fails_closed_with_a_remedy(ask: Ask) -> None:
    hidden = {"type": POLICY, "name": "policy", "props": {"bucket": "b", "policy": UNKNOWN}}
    (found,) = ask("bucket-tls-only", BUCKET, hidden)
    assert found.violation.unknown
    assert "bucket's name" in found.violation.remedy


def test_bucket_with_a_generated_name_is_judged_by_its_pair_of_arns(ask: Ask) -> None:
    unnamed = {**BUCKET, "props": {}}
    held = {**policy(TLS), "depends": {"bucket": ["bucket"]}}
    named = {**held, "props": {**held["props"], "bucket": UNKNOWN}}
    assert ask("bucket-tls-only", unnamed, named) == []


def test_public_grant_is_found_in_inline_grants_and_acl_resources(ask: Ask) -> None:
    uri = "http://acs.amazonaws.com/groups/global/AllUsers"
    inline = {**BUCKET, "props": {"grants": [{"type": "Group", "uri": uri, "permissions": ["READ"]}]}}
    grants = {"accessControlPolicy": {"grants": [{"grantee": {"type": "Group", "uri": uri.upper()}}]}}
    assert ask("bucket-no-public-acl", inline)
    assert ask("bucket-no-public-acl", {"type": "aws:s3/bucketAcl:BucketAcl", "props": grants})
    assert ask("bucket-no-public-acl", {**BUCKET, "props": {"grants": UNKNOWN}})[0].violation.unknown


def _lifecycle(**rule: Any) -> Described:
    whole = {"status": "Enabled", "filter": {"prefix": ""}, "expiration": {"days": 30}, **rule}
    return {"type": LIFECYCLE, "name": "lifecycle", "props": {"bucket": "b", "rules": [whole]}}


def test_bucket_whose_objects_all_expire_needs_no_versions(ask: Ask) -> None:
    assert ask("bucket-versioning", BUCKET, _lifecycle()) == []
    assert ask("bucket-versioning", BUCKET, _lifecycle(), settings={"expiring": False})


@pytest.mark.parametrize(
    "change",
    [
        {"status": "Disabled"},
        {"filter": {"prefix": "tmp/"}},
        {"filter": {"prefix": "", "tag": {"key": "a", "value": "b"}}},
        {"filter": {"and": {"prefix": "x"}}},
        {"expiration": {"days": 0}},
        {"expiration": {"expiredObjectDeleteMarker": True}},
        {"expiration": None},
        {"filter": {"prefix": UNKNOWN}},
    ],
)
def test_lifecycle_that_expires_only_some_objects_needs_versions(ask: Ask, change: dict[str, Any]) -> None:
    assert ask("bucket-versioning", BUCKET, _lifecycle(**change))


@pytest.mark.parametrize("resource", ["*", "arn:aws:s3:::b*", ["arn:aws:s3:::b", "arn:aws:s3:::b/*", "x"]])
def test_policy_that_denies_plain_http_for_more_passes(ask: Ask, resource: Any) -> None:
    assert ask("bucket-tls-only", BUCKET, policy({**TLS, "Resource": resource})) == []
    assert ask("bucket-tls-only", BUCKET, policy({**TLS, "Action": "*", "Resource": resource})) == []


@pytest.mark.parametrize(
    ("resource", "passes"),
    [
        (["arn:aws:s3:::any", "arn:aws:s3:::any/*"], True),
        ("arn:aws:s3:::any", False),
        ("arn:aws:s3:::a/*", False),
    ],
)
@pytest.mark.parametrize("name", [{}, {"bucket": UNKNOWN}])
def test_bucket_without_a_known_name_needs_a_pair_of_arns(
    ask: Ask, name: dict[str, Any], resource: Any, passes: bool
) -> None:
    text = json.dumps({"Statement": {**TLS, "Resource": resource}})
    held = {"type": POLICY, "name": "policy", "props": {"bucket": UNKNOWN, "policy": text}}
    found = ask("bucket-tls-only", {**BUCKET, "props": name}, {**held, "depends": {"bucket": ["bucket"]}})
    assert (found == []) is passes


def test_message_about_tls_says_what_the_policy_lacks(ask: Ask) -> None:
    (none,) = ask("bucket-tls-only", BUCKET)
    assert "it has no policy" in none.message
    assert "add a Deny statement" in none.violation.remedy
    broken = {"type": POLICY, "name": "policy", "props": {"bucket": "b", "policy": "{"}}
    (error,) = ask("bucket-tls-only", BUCKET, broken)
    assert "policy is not a policy: it is not JSON" in error.message
    (other,) = ask("bucket-tls-only", BUCKET, policy({**TLS, "Effect": "Allow"}))
    assert "policy is without such a statement" in other.message
    assert "add a Deny statement" in other.violation.remedy
    assert not other.violation.unknown
    (several,) = ask("bucket-tls-only", BUCKET, policy(TLS), policy(TLS, name="second"))
    assert several.violation.remedy == "write one policy with all statements"


def test_statement_with_an_unknown_part_denies_nothing_yet(ask: Ask) -> None:
    statement = {**TLS, "Resource": [*TLS["Resource"], UNKNOWN]}
    hidden = {"type": POLICY, "name": "p", "props": {"bucket": "b", "policy": {"Statement": [statement]}}}
    (found,) = ask("bucket-tls-only", BUCKET, hidden)
    assert found.violation.unknown
    assert "policy is not known yet" in found.message


def test_policy_under_ignore_changes_denies_nothing_for_sure(ask: Ask) -> None:
    (found,) = ask("bucket-tls-only", BUCKET, {**policy(TLS), "options": {"ignoreChanges": ["policy"]}})
    assert "ignoreChanges" in found.message


def test_block_without_a_bucket_is_of_none(ask: Ask) -> None:
    block = {"type": BLOCK, "name": "block", "props": dict(SWITCHES), "depends": {"bucket": ["bucket"]}}
    assert ask("bucket-public-access-blocked", BUCKET, block)


def test_access_point_may_leave_out_what_is_on_by_default(ask: Ask) -> None:
    def point(**switches: bool) -> Described:
        props = {"publicAccessBlockConfiguration": switches}
        return {"type": "aws:s3/accessPoint:AccessPoint", "name": "point", "props": props}

    assert ask("bucket-public-access-blocked", point(blockPublicAcls=True)) == []
    assert ask("bucket-public-access-blocked", point(blockPublicAcls=False))


@pytest.mark.parametrize(
    ("grant", "found"),
    [
        ({"type": "CanonicalUser", "id": "abc"}, False),
        ({"type": "Group", "uri": "http://acs.amazonaws.com/groups/s3/LogDelivery"}, False),
        ({"type": "Group", "uri": " http://acs.amazonaws.com/groups/global/AuthenticatedUsers "}, True),
        ({"type": "Group", "uri": UNKNOWN}, True),
    ],
)
def test_grant_is_judged_by_its_group(ask: Ask, grant: dict[str, Any], found: bool) -> None:
    described = {**BUCKET, "props": {"grants": [{"type": "CanonicalUser", "id": "owner"}, grant]}}
    assert bool(ask("bucket-no-public-acl", described)) is found


@pytest.mark.parametrize(("acl", "found"), [(" Private", False), (5, True), ("", True), (None, False)])
def test_acl_that_is_not_listed_as_private_is_found(ask: Ask, acl: Any, found: bool) -> None:
    acls = {"type": "aws:s3/bucketAcl:BucketAcl", "props": {"acl": acl}}
    assert bool(ask("bucket-no-public-acl", acls)) is found


@pytest.mark.parametrize("ignoring", [False, True])
def test_bucket_with_inline_versions_keeps_them_unless_changes_are_ignored(ask: Ask, ignoring: bool) -> None:
    options = {"ignoreChanges": ["versioning"]} if ignoring else {}
    versions = {"bucket": "b", "versioning": {"enabled": True}}
    found = ask("bucket-versioning", {**BUCKET, "props": versions, "options": options})
    assert ["ignoreChanges" in each.message for each in found] == [True] * ignoring
    separate = {
        "type": "aws:s3/bucketVersioning:BucketVersioning",
        "name": "versions",
        "props": {"bucket": "b", "versioningConfiguration": {"status": "Enabled"}},
    }
    assert ask("bucket-versioning", {**BUCKET, "options": options}, separate) == []


def test_older_prefix_of_a_lifecycle_rule_narrows_it(ask: Ask) -> None:
    assert ask("bucket-versioning", BUCKET, _lifecycle(filter=None, prefix="tmp/"))
    assert ask("bucket-versioning", BUCKET, _lifecycle(filter=None, prefix="")) == []


ENCRYPTION = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"


def test_each_rule_of_a_default_encryption_is_judged(ask: Ask) -> None:
    def encryption(*algorithms: str) -> Described:
        rules = [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": each}} for each in algorithms]
        return {"type": ENCRYPTION, "name": "encryption", "props": {"bucket": "b", "rules": rules}}

    assert ask("buckets-encrypted", BUCKET, encryption("aws:kms")) == []
    (none,) = ask("buckets-encrypted", BUCKET, encryption())
    assert none.violation.prop == "rules[0].applyServerSideEncryptionByDefault.sseAlgorithm"
    (second,) = ask("buckets-encrypted", BUCKET, encryption("aws:kms", "none"))
    assert second.violation.prop == "rules[1].applyServerSideEncryptionByDefault.sseAlgorithm"
