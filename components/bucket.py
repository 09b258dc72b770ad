"""Bucket: a private, encrypted S3 bucket that accepts only TLS."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from gpufleet.components.base import AwsContext, Component, Tags, encryption_key, policy_document

NONCURRENT_DAYS = 30
"""How long overwritten and deleted versions are kept if objects expire."""


@dataclass(frozen=True, kw_only=True)
class BucketArgs:
    """Inputs of `Bucket`. `bucket` is its name in S3. `protect` prevents Pulumi from deleting it; with
    `protect=False` a bucket is deleted with all its objects. `kms_key_arn` is an existing key, whose policy
    must let FSx's service role use it if a file system is linked; without it the component creates a key.
    """

    bucket: str
    versioning: bool = True
    expire_days: int | None = None
    kms_key_arn: pulumi.Input[str] | None = None
    protect: bool = True
    tags: Tags


class Bucket(Component):
    """A private bucket that owns all its objects, encrypted with the given key or its own.

    The policy of its own key lets this account's FSx service role use it, so that a file system can be
    linked. Incomplete uploads are deleted after a week.
    """

    bucket_name: pulumi.Output[str]
    arn: pulumi.Output[str]
    key_arn: pulumi.Output[str]
    """The key of its objects; readers and writers need permission to use it."""

    def __init__(self, name: str, args: BucketArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpufleet:storage:Bucket", name, args.tags, opts)
        context = self.aws_context()
        if args.kms_key_arn is None:
            key_arn: pulumi.Output[str] = encryption_key(
                self,
                name,
                f"Objects of the bucket {args.bucket}",
                context,
                services=[_file_systems_may_use_key(context)],
                protect=args.protect,
            ).arn
        else:
            key_arn = pulumi.Output.from_input(args.kms_key_arn)
        bucket = aws.s3.Bucket(
            name,
            bucket=args.bucket,
            force_destroy=not args.protect,
            tags=self.tags(args.bucket),
            opts=self.child(protect=args.protect),
        )
        aws.s3.BucketServerSideEncryptionConfiguration(
            name,
            bucket=bucket.id,
            rules=[
                aws.s3.BucketServerSideEncryptionConfigurationRuleArgs(
                    apply_server_side_encryption_by_default=(
                        aws.s3.BucketServerSideEncryptionConfigurationRuleApplyServerSideEncryptionByDefaultArgs(
                            sse_algorithm="aws:kms", kms_master_key_id=key_arn
                        )
                    ),
                    bucket_key_enabled=True,
                )
            ],
            opts=self.child(),
        )
        if args.versioning:
            aws.s3.BucketVersioning(
                name,
                bucket=bucket.id,
                versioning_configuration=aws.s3.BucketVersioningVersioningConfigurationArgs(status="Enabled"),
                opts=self.child(),
            )
        lifecycle = self._lifecycle(name, bucket, args)
        block = aws.s3.BucketPublicAccessBlock(
            name,
            bucket=bucket.id,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=self.child(),
        )
        aws.s3.BucketOwnershipControls(
            name,
            bucket=bucket.id,
            rule=aws.s3.BucketOwnershipControlsRuleArgs(object_ownership="BucketOwnerEnforced"),
            opts=self.child(),
        )
        # Built from the name, which is known before the bucket exists: rules check the policy in a preview.
        arn = pulumi.Output.format("arn:{0}:s3:::{1}", context.partition, args.bucket)
        aws.s3.BucketPolicy(
            name,
            bucket=bucket.id,
            policy=policy_document(
                [
                    {
                        "Sid": "TlsOnly",
                        "Effect": "Deny",
                        "Principal": "*",
                        "Action": "s3:*",
                        "Resource": [arn, pulumi.Output.format("{0}/*", arn)],
                        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                    }
                ]
            ),
            # S3 rejects concurrent changes of a bucket's access settings.
            opts=self.child(depends_on=[block]),
        )
        self.bucket_name = bucket.bucket
        self.arn = bucket.arn
        self.key_arn = key_arn
        self.register_outputs(
            {
                "bucketName": self.bucket_name,
                "arn": self.arn,
                "keyArn": self.key_arn,
                # Known once it exists: the rule storage-survives uses it to distinguish an interrupted
                # creation from a bucket whose lifecycle is added later.
                "lifecycleId": lifecycle.id,
            }
        )

    def _lifecycle(
        self, name: str, bucket: aws.s3.Bucket, args: BucketArgs
    ) -> aws.s3.BucketLifecycleConfiguration:
        rules = [
            aws.s3.BucketLifecycleConfigurationRuleArgs(
                id="unfinished-uploads",
                status="Enabled",
                filter=aws.s3.BucketLifecycleConfigurationRuleFilterArgs(prefix=""),
                abort_incomplete_multipart_upload=(
                    aws.s3.BucketLifecycleConfigurationRuleAbortIncompleteMultipartUploadArgs(
                        days_after_initiation=7
                    )
                ),
            )
        ]
        if args.expire_days is not None:
            rules.append(
                aws.s3.BucketLifecycleConfigurationRuleArgs(
                    id="expiry",
                    status="Enabled",
                    filter=aws.s3.BucketLifecycleConfigurationRuleFilterArgs(prefix=""),
                    expiration=aws.s3.BucketLifecycleConfigurationRuleExpirationArgs(days=args.expire_days),
                    noncurrent_version_expiration=(
                        aws.s3.BucketLifecycleConfigurationRuleNoncurrentVersionExpirationArgs(
                            noncurrent_days=NONCURRENT_DAYS
                        )
                        if args.versioning
                        else None
                    ),
                )
            )
        return aws.s3.BucketLifecycleConfiguration(name, bucket=bucket.id, rules=rules, opts=self.child())


def _file_systems_may_use_key(context: AwsContext) -> dict[str, object]:
    """Return the statement for FSx, whose service-linked role name ends in the file system's id."""
    role = "aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access_fs-*"
    return {
        "Sid": "LinkedFileSystems",
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"],
        "Resource": "*",
        "Condition": {
            "StringEquals": {"kms:CallerAccount": context.account_id},
            "StringLike": {
                "aws:PrincipalArn": pulumi.Output.format(
                    "arn:{0}:iam::{1}:role/{2}", context.partition, context.account_id, role
                )
            },
        },
    }
