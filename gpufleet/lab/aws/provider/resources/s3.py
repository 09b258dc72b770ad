"""S3 buckets. Former blocks of a bucket are separate resources, in `s3_settings`."""

from __future__ import annotations

from typing import Any, ClassVar

from gpufleet.lab.aws.provider.errors import is_missing, keep_on_failure
from gpufleet.lab.aws.provider.handler import AutoName, Aws, Defaults, Handler
from gpufleet.lab.aws.provider.mapper import tag_list, tags_to_map
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.waiting import settle
from gpufleet.lab.aws.provider.wire import Props

_MOVED = {
    "accelerationStatus": "BucketAccelerateConfiguration",
    "acl": "BucketAcl",
    "corsRules": "BucketCorsConfiguration",
    "grants": "BucketAcl",
    "lifecycleRules": "BucketLifecycleConfiguration",
    "logging": "BucketLogging",
    "objectLockConfiguration": "BucketObjectLockConfiguration",
    "policy": "BucketPolicy",
    "replicationConfiguration": "BucketReplicationConfig",
    "requestPayer": "BucketRequestPaymentConfiguration",
    "serverSideEncryptionConfiguration": "BucketServerSideEncryptionConfiguration",
    "versioning": "BucketVersioning",
    "website": "BucketWebsiteConfiguration",
}
_HOSTED_ZONES = {
    "us-east-1": "Z3AQBSTGFYJSTF", "us-east-2": "Z2O1EMRO9K5GLX", "us-west-1": "Z2F56UZL2M1ACD",
    "us-west-2": "Z3BJ6K6RIION7M", "eu-west-1": "Z1BKCTXD74EZPE", "eu-central-1": "Z21DNDUVLTQW6Q",
    "ap-northeast-1": "Z2M4EHUR26P7ZW", "ap-southeast-1": "Z3O0J2DXBE1FTB",
    "ap-southeast-2": "Z1WCIGYICN2BYD",
}  # fmt: skip
"""Route 53 zones of S3's website endpoints (AWS General Reference, "Amazon S3 endpoints and quotas")."""


class Bucket(Handler):
    """aws.s3.Bucket."""

    pulumi_type = "aws:s3/bucket:Bucket"
    force_new = frozenset({"bucket", "bucketPrefix", "objectLockEnabled", "bucketNamespace"})
    computed = frozenset({*_MOVED, "objectLockEnabled", "bucketNamespace"})
    defaults: ClassVar[Defaults] = {"forceDestroy": False}
    auto_name = AutoName(prop="bucket", max_length=63, lower=True)

    def check(self, inputs: Props) -> list[Problem]:
        """Reject the deprecated blocks, with the resource that replaced each."""
        return [
            Problem(key, f"{key!r} is deprecated on a bucket: use aws.s3.{_MOVED[key]} instead")
            for key in _MOVED
            if inputs.get(key) is not None
        ]

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the bucket in its region."""
        rid = str(inputs["bucket"])
        options: dict[str, Any] = {}
        if aws.region != "us-east-1":
            options["CreateBucketConfiguration"] = {"LocationConstraint": aws.region}
        if inputs.get("objectLockEnabled"):
            options["ObjectLockEnabledForBucket"] = True
        s3 = aws.client("s3")
        s3.create_bucket(Bucket=rid, **options)
        with keep_on_failure(rid):
            if inputs.get("tags"):
                s3.put_bucket_tagging(Bucket=rid, Tagging={"TagSet": tag_list(inputs["tags"])})
        return rid

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the bucket and its names."""
        s3 = aws.client("s3")
        s3.head_bucket(Bucket=rid)
        return {
            "bucket": rid,
            "arn": f"arn:aws:s3:::{rid}",
            "bucketDomainName": f"{rid}.s3.amazonaws.com",
            "bucketRegionalDomainName": f"{rid}.s3.{aws.region}.amazonaws.com",
            "bucketRegion": aws.region,
            "hostedZoneId": _HOSTED_ZONES.get(aws.region),
            "tags": self._tags(s3, rid),
        }

    @staticmethod
    def _tags(s3: Any, rid: str) -> dict[str, str]:
        try:
            return tags_to_map(s3.get_bucket_tagging(Bucket=rid)["TagSet"])
        except Exception as error:
            if is_missing(error):  # NoSuchTagSet
                return {}
            raise

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change tags, the only change in place."""
        s3 = aws.client("s3")
        if "tags" in changed and new.get("tags"):
            s3.put_bucket_tagging(Bucket=rid, Tagging={"TagSet": tag_list(new["tags"])})
        elif "tags" in changed:
            s3.delete_bucket_tagging(Bucket=rid)

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the bucket; its objects only with forceDestroy."""
        s3 = aws.client("s3")
        if state.get("forceDestroy"):
            self._empty(s3, rid)
        settle(lambda: s3.delete_bucket(Bucket=rid), codes="OperationAborted", timeout_s=10.0)

    @staticmethod
    def _empty(s3: Any, rid: str) -> None:
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=rid):
            found = [*(page.get("Versions") or ()), *(page.get("DeleteMarkers") or ())]
            objects = [{"Key": item["Key"], "VersionId": item["VersionId"]} for item in found]
            if objects:
                s3.delete_objects(Bucket=rid, Delete={"Objects": objects, "Quiet": True})


HANDLERS = (Bucket(),)
