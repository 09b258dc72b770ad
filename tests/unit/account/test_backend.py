"""The shared state of a team in an emulated account."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
import pytest
from botocore import xform_name
from botocore.exceptions import ClientError
from cfnlint.api import lint_all as lint
from msgspec.structs import replace

from gpufleet.account import backend_settings as wanted
from gpufleet.account.backend import Backend
from gpufleet.account.backend_policies import policies
from gpufleet.account.backend_settings import BackendSettings, default_alias, default_bucket
from gpufleet.account.backend_template import template
from gpufleet.errors import CloudError, InputError
from tests.unit.stacks.moto_mocks import emulated_aws

ACCOUNT = "123456789012"
SETTINGS = BackendSettings(
    fleet="atlas",
    account=ACCOUNT,
    partition="aws",
    region="eu-central-1",
    bucket=default_bucket("atlas", ACCOUNT),
    alias=default_alias("atlas"),
)
SETS = [
    "public access block",
    "object ownership",
    "versioning",
    "encryption",
    "lifecycle of old versions",
    "bucket policy",
    "tags",
]
POLICIES = ["policy atlas-state-people", "policy atlas-state-ci-prod", "policy atlas-state-preview"]


def client(service: str, region: str = "eu-central-1") -> Any:
    return boto3.client(service, region_name=region)


def backend(settings: BackendSettings = SETTINGS) -> Backend:
    return Backend(settings, client, lambda arn: policies(settings, arn, "gpufleet", "prod"))


@pytest.fixture
def account() -> Iterator[None]:
    with emulated_aws():
        yield


@pytest.fixture
def made(account: None) -> Backend:
    made = backend()
    made.ensure()
    return made


def status(which: Backend) -> dict[str, str]:
    return {part.name: part.status for part in which.parts()}


def test_nothing_is_there_at_first_and_looking_creates_nothing(account: None) -> None:
    assert status(backend()) == {"key": "missing", "bucket": "missing"}
    assert client("s3").list_buckets()["Buckets"] == []
    assert client("kms").list_keys()["Keys"] == []


def test_everything_is_created_once_and_a_second_run_changes_nothing(account: None) -> None:
    done = [part.name for part in backend().ensure()]
    assert done[:2] == ["key", "bucket"]
    assert set(done[2:]) >= {*SETS, *POLICIES} - {"object ownership"}
    assert status(backend()) == dict.fromkeys(["key", "key rotation", *SETS, *POLICIES], "ok")
    assert backend().ensure() == []
    assert len(client("kms").list_keys()["Keys"]) == 1


def test_bucket_is_private_versioned_encrypted_with_the_key_and_only_reached_by_tls(made: Backend) -> None:
    s3, bucket = client("s3"), SETTINGS.bucket
    key = client("kms").describe_key(KeyId="alias/atlas-state")["KeyMetadata"]
    assert client("kms").get_key_rotation_status(KeyId=key["KeyId"])["KeyRotationEnabled"] is True
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    assert set(s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"].values()) == {True}
    (rule,) = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    assert rule["ApplyServerSideEncryptionByDefault"] == {
        "SSEAlgorithm": "aws:kms",
        "KMSMasterKeyID": key["Arn"],
    }
    statements = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])["Statement"]
    assert {each["Effect"] for each in statements} == {"Deny"}
    assert {"Bool": {"aws:SecureTransport": "false"}} in [each["Condition"] for each in statements]
    assert s3.get_bucket_location(Bucket=bucket)["LocationConstraint"] == "eu-central-1"


def test_lifecycle_ends_old_versions_and_never_a_present_one(made: Backend) -> None:
    (rule,) = client("s3").get_bucket_lifecycle_configuration(Bucket=SETTINGS.bucket)["Rules"]
    assert rule["NoncurrentVersionExpiration"]["NoncurrentDays"] == wanted.KEPT_DAYS
    assert "Days" not in rule["Expiration"]
    assert "Date" not in rule["Expiration"]


@pytest.mark.parametrize(
    "name", ["versioning", "public access block", "bucket policy", "tags", "key rotation"]
)
def test_changed_setting_is_reported_and_only_it_is_repaired(made: Backend, name: str) -> None:
    s3, bucket = client("s3"), SETTINGS.bucket
    key = client("kms").describe_key(KeyId="alias/atlas-state")["KeyMetadata"]["KeyId"]
    changes = {
        "versioning": lambda: s3.put_bucket_versioning(
            Bucket=bucket, VersioningConfiguration={"Status": "Suspended"}
        ),
        "public access block": lambda: s3.delete_public_access_block(Bucket=bucket),
        "bucket policy": lambda: s3.delete_bucket_policy(Bucket=bucket),
        "tags": lambda: s3.put_bucket_tagging(
            Bucket=bucket, Tagging={"TagSet": [{"Key": "a", "Value": "b"}]}
        ),
        "key rotation": lambda: client("kms").disable_key_rotation(KeyId=key),
    }
    changes[name]()
    assert {part for part, is_ in status(made).items() if is_ != "ok"} == {name}
    assert [part.name for part in made.ensure()] == [name]
    assert set(status(made).values()) == {"ok"}


def test_changed_policy_gets_a_new_version_and_the_oldest_of_five_goes(made: Backend) -> None:
    iam, arn = client("iam"), f"arn:aws:iam::{ACCOUNT}:policy/atlas-state-people"
    for number in range(4):
        open_ = {"Effect": "Allow", "Action": "s3:*", "Resource": "*", "Sid": f"Open{number}"}
        text = json.dumps({"Version": "2012-10-17", "Statement": [open_]})
        iam.create_policy_version(PolicyArn=arn, PolicyDocument=text, SetAsDefault=True)
    assert status(made)["policy atlas-state-people"] == "differs"
    assert [part.name for part in made.ensure()] == ["policy atlas-state-people"]
    assert status(made)["policy atlas-state-people"] == "ok"
    versions = [each["VersionId"] for each in iam.list_policy_versions(PolicyArn=arn)["Versions"]]
    assert len(versions) == 5
    assert "v1" not in versions


def test_another_key_takes_over_the_encryption_of_the_bucket_and_the_old_one_stays(made: Backend) -> None:
    old = made.key_arn()
    other = backend(replace(SETTINGS, alias="alias/atlas-state-2"))
    assert {part.name for part in other.ensure()} == {"key", "encryption", *POLICIES}
    (rule,) = client("s3").get_bucket_encryption(Bucket=SETTINGS.bucket)["ServerSideEncryptionConfiguration"][
        "Rules"
    ]
    assert rule["ApplyServerSideEncryptionByDefault"]["KMSMasterKeyID"] == other.key_arn() != old
    assert client("kms").describe_key(KeyId=old)["KeyMetadata"]["KeyState"] == "Enabled"


def test_key_that_waits_for_its_deletion_is_refused(made: Backend) -> None:
    client("kms").schedule_key_deletion(KeyId=made.key_arn().rpartition("/")[2], PendingWindowInDays=30)
    with pytest.raises(InputError, match="is PendingDeletion") as refused:
        made.ensure()
    assert "cancel-key-deletion" in refused.value.remedy


def refusing(service: str, operation: str, code: str, message: str = "no") -> Any:
    """Clients of which one call is refused, as moto does not refuse it."""

    def refuse(**_: Any) -> None:
        raise ClientError({"Error": {"Code": code, "Message": message}}, operation)

    def clients(name: str) -> Any:
        made = client(name)
        if name == service:
            setattr(made, xform_name(operation), refuse)
        return made

    return clients


# HeadBucket has no body: its code is the HTTP status (S3 API Reference, HeadBucket).
@pytest.mark.parametrize(
    ("operation", "code"), [("HeadBucket", "403"), ("CreateBucket", "BucketAlreadyExists")]
)
def test_bucket_of_somebody_else_is_refused(account: None, operation: str, code: str) -> None:
    with pytest.raises(InputError, match=f"{SETTINGS.bucket} exists and does not belong") as refused:
        Backend(SETTINGS, refusing("s3", operation, code), lambda _: {}).ensure()
    assert "--bucket" in refused.value.remedy
    assert client("s3").list_buckets()["Buckets"] == []


def test_bucket_in_another_region_is_refused(account: None) -> None:
    client("s3", "us-west-2").create_bucket(
        Bucket=SETTINGS.bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"}
    )
    with pytest.raises(InputError, match="is in region us-west-2, not in eu-central-1") as refused:
        backend().parts()
    assert "--region us-west-2" in refused.value.remedy


def test_refusal_of_aws_names_the_call_and_the_way_around(account: None) -> None:
    clients = refusing("kms", "CreateKey", "AccessDeniedException")
    with pytest.raises(CloudError, match="AWS refuses CreateKey: no") as refused:
        Backend(SETTINGS, clients, lambda _: {}).ensure()
    assert "gpufleet backend print" in refused.value.remedy


@pytest.mark.parametrize("bucket", ["A", "no_underscore", "x" * 64, "with.dot", "xn--bucket", "-edge"])
def test_impossible_name_of_a_bucket_is_refused(bucket: str) -> None:
    with pytest.raises(InputError, match="is not a name for a bucket"):
        replace(SETTINGS, bucket=bucket)


@pytest.mark.parametrize("alias", ["atlas", "alias/", "alias/aws/s3", "alias/a b"])
def test_impossible_alias_is_refused(alias: str) -> None:
    with pytest.raises(InputError, match="is not an alias for a key"):
        replace(SETTINGS, alias=alias)


def actions(document: Mapping[str, Any]) -> set[str]:
    return {action for each in document["Statement"] for action in each["Action"]}


def test_nobody_deletes_versions_or_changes_settings_and_nothing_is_a_wildcard() -> None:
    for name, document in policies(SETTINGS, "arn:key", "gpufleet", "prod").items():
        given = actions(document)
        assert not [action for action in given if "*" in action], name
        assert not given & {"s3:DeleteObjectVersion", "s3:DeleteBucket", "s3:PutBucketPolicy"}, name
        for each in document["Statement"]:
            assert each["Resource"] != ["*"], name


def test_preview_reads_only() -> None:
    preview = policies(SETTINGS, "arn:key", "gpufleet", "prod")["atlas-state-preview"]
    assert actions(preview) == {"s3:GetObject", "s3:ListBucket", "kms:Decrypt", "kms:DescribeKey"}


def test_ci_writes_only_the_stack_of_its_environment() -> None:
    ci = policies(SETTINGS, "arn:key", "gpufleet", "prod")["atlas-state-ci-prod"]
    (write,) = [each for each in ci["Statement"] if "s3:PutObject" in each["Action"]]
    assert write["Resource"]
    for resource in write["Resource"]:
        assert "/gpufleet/prod" in resource
        assert "/gpufleet/prod*" not in resource, "that would include prod-2"


def test_template_creates_what_create_creates() -> None:
    document = template(SETTINGS, "gpufleet", "prod")
    assert json.loads(json.dumps(document)) == document
    found = [match for match in lint(json.dumps(document)) if match.rule.severity != "informational"]
    assert [str(match) for match in found] == []
    resources = document["Resources"]
    properties = resources["Bucket"]["Properties"]
    assert properties["PublicAccessBlockConfiguration"] == wanted.public_access_block()
    assert resources["BucketPolicy"]["Properties"]["PolicyDocument"] == wanted.bucket_policy(SETTINGS)
    assert {resources[name]["DeletionPolicy"] for name in ("Key", "Bucket")} == {"Retain"}
    named = {
        each["Properties"]["ManagedPolicyName"]
        for each in resources.values()
        if each["Type"] == "AWS::IAM::ManagedPolicy"
    }
    assert named == {name.removeprefix("policy ") for name in POLICIES}
    assert "KEY-ARN" not in json.dumps(document)
