"""IAM policies of those who use the shared state.

The Pulumi CLI keeps a stack of a project in `.pulumi/stacks`, `.pulumi/history`, `.pulumi/backups` and
`.pulumi/locks` of the bucket (pkg/backend/diy of pulumi/pulumi). Nobody gets `s3:DeleteObjectVersion`: what a
run overwrites or deletes can be restored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpufleet.account.backend_settings import BackendSettings

_READ = ["s3:GetObject"]
_WRITE = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]
_USE_KEY = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"]
_READ_KEY = ["kms:Decrypt", "kms:DescribeKey"]


def policies(
    settings: BackendSettings, key_arn: str, project: str, environment: str
) -> dict[str, dict[str, Any]]:
    """Return the policies by name.

    `-people`: run every environment, and restore old versions. `-ci-<environment>`: run one environment.
    `-preview`: read everything, for `preview` and `check`. A preview decrypts the state, so its role can read
    the secrets in it.
    """
    base = f"{settings.fleet}-state"
    bucket, key = settings.bucket_arn, key_arn
    objects = f"{bucket}/.pulumi"
    own = [
        f"{objects}/stacks/{project}/{environment}.*",
        *(f"{objects}/{folder}/{project}/{environment}/*" for folder in ("history", "backups")),
        f"{objects}/locks/organization/{project}/{environment}/*",
    ]
    listing = _allow("ListState", ["s3:ListBucket"], [bucket])
    return {
        f"{base}-people": _document(
            listing,
            _allow("RunEveryEnvironment", _WRITE, [f"{objects}/*"]),
            _allow("RestoreOldVersions", ["s3:GetObjectVersion"], [f"{objects}/*"]),
            _allow("FindOldVersions", ["s3:ListBucketVersions"], [bucket]),
            _allow("UseKey", _USE_KEY, [key]),
        ),
        f"{base}-ci-{environment}": _document(
            listing,
            _allow("ReadLayout", _READ, [f"{objects}/meta.yaml"]),
            _allow("RunThisEnvironment", _WRITE, own),
            _allow("UseKey", _USE_KEY, [key]),
        ),
        f"{base}-preview": _document(
            listing,
            _allow("ReadState", _READ, [f"{objects}/*"]),
            _allow("ReadSecrets", _READ_KEY, [key]),
        ),
    }


def _document(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _allow(sid: str, actions: Sequence[str], resources: Sequence[str]) -> dict[str, Any]:
    return {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": list(resources)}
