"""The shared state as a CloudFormation template, for an administrator who creates it instead."""

from __future__ import annotations

from typing import Any

from gpufleet.account import backend_settings as wanted
from gpufleet.account.backend_policies import policies
from gpufleet.account.backend_settings import BackendSettings

_KEY_ARN = "KEY-ARN"


def template(settings: BackendSettings, project: str, environment: str) -> dict[str, Any]:
    """Return a template that creates what `create` creates, with the same names and settings.

    Bucket and key stay if the stack of CloudFormation is deleted.
    """
    tags = wanted.tag_list(settings.tags)
    rule = wanted.lifecycle()[0]
    kept = rule["NoncurrentVersionExpiration"]
    key: dict[str, Any] = {
        "Type": "AWS::KMS::Key",
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": {
            "Description": f"State of the fleet {settings.fleet}",
            "EnableKeyRotation": True,
            "PendingWindowInDays": wanted.WAITING_DAYS,
            "KeyPolicy": wanted.key_policy(settings),
            "Tags": tags,
        },
    }
    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": {"Fn::GetAtt": ["Key", "Arn"]}}
    bucket: dict[str, Any] = {
        "Type": "AWS::S3::Bucket",
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": {
            "BucketName": settings.bucket,
            "VersioningConfiguration": {"Status": "Enabled"},
            "PublicAccessBlockConfiguration": wanted.public_access_block(),
            "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
            "BucketEncryption": {
                "ServerSideEncryptionConfiguration": [
                    {"ServerSideEncryptionByDefault": default, "BucketKeyEnabled": True}
                ]
            },
            "LifecycleConfiguration": {
                "Rules": [
                    {
                        "Id": rule["ID"],
                        "Status": rule["Status"],
                        "NoncurrentVersionExpiration": kept,
                        "ExpiredObjectDeleteMarker": True,
                        "AbortIncompleteMultipartUpload": rule["AbortIncompleteMultipartUpload"],
                    }
                ]
            },
            "Tags": tags,
        },
    }
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"Shared Pulumi state of the fleet {settings.fleet}",
        "Resources": {
            "Key": key,
            "KeyAlias": {
                "Type": "AWS::KMS::Alias",
                "Properties": {"AliasName": settings.alias, "TargetKeyId": {"Ref": "Key"}},
            },
            "Bucket": bucket,
            "BucketPolicy": {
                "Type": "AWS::S3::BucketPolicy",
                "Properties": {
                    "Bucket": {"Ref": "Bucket"},
                    "PolicyDocument": wanted.bucket_policy(settings),
                },
            },
            **{
                _logical(name): {
                    "Type": "AWS::IAM::ManagedPolicy",
                    "Properties": {"ManagedPolicyName": name, "PolicyDocument": _with_key(document)},
                }
                for name, document in policies(settings, _KEY_ARN, project, environment).items()
            },
        },
    }


def _logical(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))


def _with_key(value: Any) -> Any:
    """Put the key that the template creates where the policies name it."""
    if value == _KEY_ARN:
        return {"Fn::GetAtt": ["Key", "Arn"]}
    if isinstance(value, dict):
        return {key: _with_key(item) for key, item in value.items()}
    return [_with_key(item) for item in value] if isinstance(value, list) else value
