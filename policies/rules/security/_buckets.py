"""Buckets and the resources that configure them: S3 uses a dozen resource types for one bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpufleet.resources.launches import declared
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import BUCKETS

BLOCK = ("aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",)
POLICY = ("aws:s3/bucketPolicy:BucketPolicy",)
OWNERSHIP = ("aws:s3/bucketOwnershipControls:BucketOwnershipControls",)
ENCRYPTION = (
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
    "aws:s3/bucketServerSideEncryptionConfigurationV2:BucketServerSideEncryptionConfigurationV2",
)
VERSIONING = (
    "aws:s3/bucketVersioning:BucketVersioning",
    "aws:s3/bucketVersioningV2:BucketVersioningV2",
)
LIFECYCLE = (
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration",
    "aws:s3/bucketLifecycleConfigurationV2:BucketLifecycleConfigurationV2",
)
ACL = ("aws:s3/bucketAcl:BucketAcl", "aws:s3/bucketAclV2:BucketAclV2")


def configured(stack: Stack, types: Sequence[str]) -> Iterator[tuple[Resource, list[Resource]]]:
    """Yield each bucket with the resources of the types that configure it, as the program declares them.

    A resource whose unknown bucket was computed from several counts for none.
    """
    buckets = stack.of_type(*BUCKETS)
    by_name = {bucket.get(attribute): bucket for bucket in buckets for attribute in ("bucket", "id")}
    found: dict[str, list[Resource]] = {bucket.urn: [] for bucket in buckets}
    for resource in stack.of_type(*types):
        target = _target(stack, resource, by_name)
        if target is not None:
            found[target.urn].append(declared(resource))
    for bucket in buckets:
        yield declared(bucket), found[bucket.urn]


def _target(stack: Stack, resource: Resource, by_name: Mapping[Any, Resource]) -> Resource | None:
    name = resource.get("bucket")
    if isinstance(name, str):
        return by_name.get(name)
    if not is_unknown(name):
        return None
    referred = stack.references(resource, "bucket", types=BUCKETS)
    return referred[0] if len(referred) == 1 else None
