"""What a team shares state with: a bucket, a key, and their settings, as AWS's APIs take them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from gpufleet.errors import InputError

KEPT_DAYS = 365
"""How long old versions of a checkpoint stay."""

UNFINISHED_DAYS = 7
WAITING_DAYS = 30

_BUCKET = re.compile(r"[a-z0-9]([a-z0-9-]{1,61})[a-z0-9]")
_ALIAS = re.compile(r"alias/[A-Za-z0-9/_-]+")


class BackendSettings(Struct, frozen=True):
    """The shared state of a fleet: its bucket and key in one region of one account.

    `fleet` names the IAM policies. `alias` is the key's alias with `alias/`. Raises InputError for names that
    AWS rejects.
    """

    fleet: str
    account: str
    partition: str
    region: str
    bucket: str
    alias: str

    def __post_init__(self) -> None:
        if not _BUCKET.fullmatch(self.bucket) or self.bucket.startswith("xn--") or "--" in self.bucket[-10:]:
            raise InputError(
                f"{self.bucket!r} is not a name for a bucket: 3 to 63 lower-case letters, digits and '-'",
                remedy=f"use --bucket {default_bucket(self.fleet, self.account)}",
            )
        if not _ALIAS.fullmatch(self.alias) or self.alias.startswith("alias/aws/"):
            raise InputError(
                f"{self.alias!r} is not an alias for a key: alias/ and letters, digits, '/', '_' and '-'; "
                "alias/aws/ is AWS's own",
                remedy=f"use --key {default_alias(self.fleet)}",
            )

    @property
    def url(self) -> str:
        """The backend of the Pulumi CLI."""
        return f"s3://{self.bucket}?region={self.region}"

    @property
    def secrets_provider(self) -> str:
        """The secrets provider of the Pulumi CLI."""
        return f"awskms://{self.alias}?region={self.region}"

    @property
    def bucket_arn(self) -> str:
        """The bucket's ARN."""
        return f"arn:{self.partition}:s3:::{self.bucket}"

    @property
    def tags(self) -> dict[str, str]:
        """Tags of the bucket, the key and the policies."""
        return {"gpufleet:fleet": self.fleet, "gpufleet:purpose": "state"}


def default_bucket(fleet: str, account: str) -> str:
    """Return a bucket name that nobody else has by chance: names of buckets are AWS-wide."""
    return f"{fleet}-state-{account}"


def default_alias(fleet: str) -> str:
    """Return the alias of a fleet's key."""
    return f"alias/{fleet}-state"


def public_access_block() -> dict[str, bool]:
    """Return the settings that keep the bucket from the public."""
    return dict.fromkeys(
        ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"), True
    )


def encryption(key_arn: str) -> dict[str, Any]:
    """Return the bucket's default encryption; a bucket key saves a request to KMS for each object."""
    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key_arn}
    return {"Rules": [{"ApplyServerSideEncryptionByDefault": default, "BucketKeyEnabled": True}]}


def lifecycle() -> list[dict[str, Any]]:
    """Return the rules by which old versions and unfinished uploads end. Present versions never do."""
    return [
        {
            "ID": "old-versions",
            "Status": "Enabled",
            "Filter": {"Prefix": ""},
            "NoncurrentVersionExpiration": {"NoncurrentDays": KEPT_DAYS},
            "Expiration": {"ExpiredObjectDeleteMarker": True},
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": UNFINISHED_DAYS},
        }
    ]


def bucket_policy(settings: BackendSettings) -> dict[str, Any]:
    """Return the bucket's policy: TLS only, and nobody of another account."""
    both = [settings.bucket_arn, f"{settings.bucket_arn}/*"]
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": both}
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Sid": "OnlyTls", **deny, "Condition": {"Bool": {"aws:SecureTransport": "false"}}},
            {
                "Sid": "OnlyThisAccount",
                **deny,
                "Condition": {
                    "StringNotEquals": {"aws:PrincipalAccount": settings.account},
                    "Bool": {"aws:PrincipalIsAWSService": "false"},
                },
            },
        ],
    }


def key_policy(settings: BackendSettings) -> dict[str, Any]:
    """Return the key's policy: the account's IAM policies govern it, and no other account uses it."""
    root = f"arn:{settings.partition}:iam::{settings.account}:root"
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "AccountGovernsThisKeyThroughIam",
                "Effect": "Allow",
                "Principal": {"AWS": root},
                "Action": "kms:*",
                "Resource": "*",
            }
        ],
    }


def tag_list(tags: Mapping[str, str], key: str = "Key", value: str = "Value") -> list[dict[str, str]]:
    """Return tags as AWS's APIs take them."""
    return [{key: name, value: text} for name, text in sorted(tags.items())]
