"""Create, compare and repair the bucket, the key and the policies of a shared state."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from botocore.exceptions import BotoCoreError, ClientError
from msgspec import Struct

from gpufleet.account import backend_settings as wanted
from gpufleet.account.backend_settings import BackendSettings
from gpufleet.errors import CloudError, InputError

Clients = Callable[[str], Any]
"""Service -> boto3 client in the region of the backend."""

Status = Literal["missing", "differs", "ok"]


class Part(Struct, frozen=True):
    """One part of the backend: what it is, and how AWS has it. `change` creates or repairs it."""

    name: str
    status: Status
    found: str = ""
    change: Callable[[], object] | None = None


class Backend:
    """The shared state in an account. Reading and changing go by the same parts."""

    def __init__(
        self,
        settings: BackendSettings,
        clients: Clients,
        policies: Callable[[str], Mapping[str, Mapping[str, Any]]],
    ) -> None:
        """`policies` returns the IAM policies by name for the ARN of the key; none to leave IAM alone."""
        self.settings = settings
        self._clients = clients
        self._policies = policies
        self._owner = {"Bucket": settings.bucket, "ExpectedBucketOwner": settings.account}

    def parts(self) -> list[Part]:
        """Return all parts as AWS has them; changes nothing.

        Raises InputError for a bucket of somebody else or in another region, and CloudError if AWS refuses.
        """
        with _explained(self.settings):
            key = self._key()
            found = [self._key_part(key)]
            exists = self._bucket_exists()
            if not exists:
                found.append(Part("bucket", "missing", change=self._create_bucket))
            if key is None or not exists:
                # What depends on a key or a bucket that does not exist is missing too.
                return found
            arn = str(key["Arn"])
            found += [self._rotation(key), *self._bucket_parts(arn)]
            return [*found, *self._policy_parts(arn)]

    def ensure(self) -> list[Part]:
        """Create and repair what differs; return the parts that were changed, in order."""
        done: list[Part] = []
        # Parts that depend on a key or bucket are known once those exist.
        for _ in range(3):
            changes = [part for part in self.parts() if part.status != "ok"]
            if not changes:
                return done
            for part in changes:
                with _explained(self.settings):
                    if part.change is not None:
                        part.change()
                done.append(part)
        raise CloudError(
            f"AWS still reports differences after their repair: {', '.join(part.name for part in changes)}",
            remedy="run the command again in a minute: AWS shows some settings late",
        )

    def key_arn(self) -> str:
        """Return the ARN of the key."""
        with _explained(self.settings):
            key = self._key()
        if key is None:
            raise InputError(f"there is no key {self.settings.alias}", remedy="run `gpufleet backend create`")
        return str(key["Arn"])

    # -- the key

    def _key(self) -> dict[str, Any] | None:
        try:
            found = self._clients("kms").describe_key(KeyId=self.settings.alias)["KeyMetadata"]
        except ClientError as error:
            if _code(error) == "NotFoundException":
                return None
            raise
        if found["KeyState"] != "Enabled":
            raise InputError(
                f"the key {self.settings.alias} is {found['KeyState']}",
                remedy="cancel its deletion and enable it (`aws kms cancel-key-deletion`, `aws kms "
                "enable-key`): the state cannot be read without it",
            )
        return dict(found)

    def _key_part(self, key: Mapping[str, Any] | None) -> Part:
        return Part("key", "missing", change=self._create_key) if key is None else Part("key", "ok")

    def _create_key(self) -> None:
        kms = self._clients("kms")
        made = kms.create_key(
            Description=f"State of the fleet {self.settings.fleet}",
            Policy=json.dumps(wanted.key_policy(self.settings)),
            Tags=wanted.tag_list(self.settings.tags, "TagKey", "TagValue"),
        )["KeyMetadata"]["KeyId"]
        kms.create_alias(AliasName=self.settings.alias, TargetKeyId=made)
        kms.enable_key_rotation(KeyId=made)

    def _rotation(self, key: Mapping[str, Any]) -> Part:
        kms = self._clients("kms")
        if kms.get_key_rotation_status(KeyId=key["KeyId"])["KeyRotationEnabled"]:
            return Part("key rotation", "ok")
        return Part("key rotation", "differs", "off", lambda: kms.enable_key_rotation(KeyId=key["KeyId"]))

    # -- the bucket

    def _bucket_exists(self) -> bool:
        s3, settings = self._clients("s3"), self.settings
        try:
            answer = s3.head_bucket(**self._owner)
        except ClientError as error:
            if _code(error) in ("404", "NoSuchBucket"):
                return False
            if _code(error) in ("403", "AccessDenied"):
                raise _of_somebody_else(settings) from None
            if _code(error) not in ("301", "PermanentRedirect"):
                raise
            answer = error.response
        headers = answer["ResponseMetadata"].get("HTTPHeaders", {})
        region = answer.get("BucketRegion") or headers.get("x-amz-bucket-region") or settings.region
        if region != settings.region:
            raise InputError(
                f"the bucket {settings.bucket} is in region {region}, not in {settings.region}",
                remedy=f"pass --region {region}, or another name with --bucket",
            )
        return True

    def _create_bucket(self) -> None:
        where = (
            {}
            if self.settings.region == "us-east-1"
            else {"CreateBucketConfiguration": {"LocationConstraint": self.settings.region}}
        )
        self._clients("s3").create_bucket(
            Bucket=self.settings.bucket, ObjectOwnership="BucketOwnerEnforced", **where
        )

    def _bucket_parts(self, key_arn: str) -> Iterator[Part]:
        s3, owner = self._clients("s3"), self._owner
        block, policy = wanted.public_access_block(), wanted.bucket_policy(self.settings)
        yield self._setting(
            "public access block",
            lambda: s3.get_public_access_block(**owner)["PublicAccessBlockConfiguration"],
            block,
            lambda: s3.put_public_access_block(**owner, PublicAccessBlockConfiguration=block),
        )
        rules = [{"ObjectOwnership": "BucketOwnerEnforced"}]
        yield self._setting(
            "object ownership",
            lambda: s3.get_bucket_ownership_controls(**owner)["OwnershipControls"]["Rules"],
            rules,
            lambda: s3.put_bucket_ownership_controls(**owner, OwnershipControls={"Rules": rules}),
        )
        yield self._setting(
            "versioning",
            lambda: s3.get_bucket_versioning(**owner).get("Status"),
            "Enabled",
            lambda: s3.put_bucket_versioning(**owner, VersioningConfiguration={"Status": "Enabled"}),
        )
        encryption = wanted.encryption(key_arn)
        yield self._setting(
            "encryption",
            lambda: _encryption(s3.get_bucket_encryption(**owner)["ServerSideEncryptionConfiguration"]),
            _encryption(encryption),
            lambda: s3.put_bucket_encryption(**owner, ServerSideEncryptionConfiguration=encryption),
        )
        lifecycle = wanted.lifecycle()
        yield self._setting(
            "lifecycle of old versions",
            lambda: _for_all(s3.get_bucket_lifecycle_configuration(**owner)["Rules"]),
            _for_all(lifecycle),
            lambda: s3.put_bucket_lifecycle_configuration(
                **owner, LifecycleConfiguration={"Rules": lifecycle}
            ),
        )
        yield self._setting(
            "bucket policy",
            lambda: json.loads(s3.get_bucket_policy(**owner)["Policy"]),
            policy,
            lambda: s3.put_bucket_policy(**owner, Policy=json.dumps(policy)),
        )
        tags = wanted.tag_list(self.settings.tags)
        yield self._setting(
            "tags",
            lambda: sorted(s3.get_bucket_tagging(**owner)["TagSet"], key=lambda tag: str(tag["Key"])),
            tags,
            lambda: s3.put_bucket_tagging(**owner, Tagging={"TagSet": tags}),
        )

    def _setting(self, name: str, read: Callable[[], Any], asked: Any, change: Callable[[], object]) -> Part:
        try:
            found = read()
        except ClientError as error:
            if not _code(error).startswith(
                ("NoSuch", "ServerSideEncryptionConfigurationNotFound", "Ownership")
            ):
                raise
            found = None
        if found == asked:
            return Part(name, "ok")
        return Part(name, "missing" if found is None else "differs", _short(found), change)

    # -- the policies

    def _policy_parts(self, key_arn: str) -> Iterator[Part]:
        iam, settings = self._clients("iam"), self.settings
        for name, document in self._policies(key_arn).items():
            arn = f"arn:{settings.partition}:iam::{settings.account}:policy/{name}"
            text = json.dumps(document)
            try:
                version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
            except ClientError as error:
                if _code(error) != "NoSuchEntity":
                    raise
                yield Part(f"policy {name}", "missing", change=_creator(iam, name, text, settings.tags))
                continue
            found = iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"]
            if (json.loads(found) if isinstance(found, str) else found) == document:
                yield Part(f"policy {name}", "ok")
            else:
                yield Part(f"policy {name}", "differs", "another document", _replacer(iam, arn, text))


def _creator(iam: Any, name: str, text: str, tags: Mapping[str, str]) -> Callable[[], object]:
    return lambda: iam.create_policy(PolicyName=name, PolicyDocument=text, Tags=wanted.tag_list(tags))


def _replacer(iam: Any, arn: str, text: str) -> Callable[[], object]:
    def replace() -> None:
        versions = iam.list_policy_versions(PolicyArn=arn)["Versions"]
        old = sorted((each for each in versions if not each["IsDefaultVersion"]), key=_age)
        # A policy has five versions at most (IAM User Guide, "IAM and AWS STS quotas").
        if len(versions) >= 5:
            iam.delete_policy_version(PolicyArn=arn, VersionId=old[0]["VersionId"])
        iam.create_policy_version(PolicyArn=arn, PolicyDocument=text, SetAsDefault=True)

    return replace


def _age(version: Mapping[str, Any]) -> int:
    return int(str(version["VersionId"]).removeprefix("v"))


def _encryption(found: Mapping[str, Any]) -> list[Any]:
    """Return the parts of an encryption that matter: AWS adds settings of its own to a rule."""
    return [
        (
            rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"],
            rule["ApplyServerSideEncryptionByDefault"].get("KMSMasterKeyID"),
            bool(rule.get("BucketKeyEnabled")),
        )
        for rule in found["Rules"]
    ]


def _for_all(rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return lifecycle rules with one spelling of a filter that every object passes."""
    return [{**rule, "Filter": rule.get("Filter") or {"Prefix": ""}} for rule in rules]


def _short(found: Any) -> str:
    text = found if isinstance(found, str) else json.dumps(found, sort_keys=True)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _of_somebody_else(settings: BackendSettings) -> InputError:
    return InputError(
        f"the bucket {settings.bucket} exists and does not belong to the account ending in "
        f"{settings.account[-4:]}, or these credentials may not read it",
        remedy="pass another name with --bucket (names of buckets are AWS-wide), or use credentials that may "
        "read it",
    )


@contextmanager
def _explained(settings: BackendSettings) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        if _code(error) in ("BucketAlreadyExists", "403"):
            raise _of_somebody_else(settings) from None
        raise CloudError(
            f"AWS refuses {error.operation_name}: {error.response.get('Error', {}).get('Message', error)}",
            remedy="use credentials of an administrator, or let one create it: `gpufleet backend print` "
            "prints a CloudFormation template",
        ) from None
    except BotoCoreError as error:
        raise CloudError(
            f"AWS does not respond: {error}", remedy="check the network and the region"
        ) from None
