"""Overwritten and deleted objects of buckets that keep data can be restored."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._buckets import LIFECYCLE, VERSIONING, configured
from gpufleet.policies.rules.security._frameworks import security_hub
from gpufleet.policies.rules.security._properties import ignored, is_on, require
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import BUCKETS


class BucketVersioningSettings(Settings):
    """Which buckets need no versioning."""

    expiring: bool = Field(True, description="Whether a bucket whose objects all expire needs no versioning")


_BUCKET = {"type": BUCKETS[0], "name": "models", "props": {"bucket": "atlas-models"}}


@stack_rule(
    "bucket-versioning",
    group="security",
    title="Buckets that keep data have versioning",
    why="A job that writes to the wrong prefix, or a stolen role, can overwrite checkpoints and data sets. "
    "Versions restore them. Objects that expire need none.",
    fix="Add an `aws:s3/bucketVersioning` with `status: Enabled` (fleet file: bucket.versioning), or let "
    "all objects expire (bucket.expire_after).",
    severity="medium",
    framework=security_hub("S3.14"),
    types=(*BUCKETS, *VERSIONING, *LIFECYCLE),
    settings=BucketVersioningSettings,
    passes=Example(
        (
            _BUCKET,
            {
                "type": VERSIONING[0],
                "name": "versions",
                "props": {"bucket": "atlas-models", "versioningConfiguration": {"status": "Enabled"}},
            },
        )
    ),
    fails=Example((_BUCKET,)),
)
def bucket_versioning(stack: Stack, context: RuleContext[BucketVersioningSettings]) -> Iterator[Violation]:
    """Check each bucket with its versioning and its lifecycle."""
    lifecycles = {bucket.urn: found for bucket, found in configured(stack, LIFECYCLE)}
    for bucket, versions in configured(stack, VERSIONING):
        if context.settings.expiring and any(_expires(each) for each in lifecycles[bucket.urn]):
            continue
        path = "versioningConfiguration.status"
        for each in versions:
            yield from require(
                each,
                path,
                lambda value: value == "Enabled",
                "it must keep versions",
                "set it to Enabled",
            )
        if not versions and not is_on(bucket.get("versioning.enabled")):
            yield Violation(
                "it keeps no versions, and its objects do not expire",
                "add an aws:s3/bucketVersioning for it (fleet file: bucket.versioning: true)",
                urn=bucket.urn,
                prop="versioning",
            )
        elif not versions and bucket.ignores("versioning"):
            yield ignored(bucket, "versioning", "versions are kept")


def _expires(lifecycle: Resource) -> bool:
    """Return whether all objects of the bucket expire."""
    for path, _ in lifecycle.items("rules"):
        days = lifecycle.get(f"{path}.expiration.days")
        prefix = lifecycle.get(f"{path}.filter.prefix", "")
        whole = prefix == "" and lifecycle.get(f"{path}.prefix", "") == ""
        narrower = any(
            lifecycle.get(f"{path}.filter.{each}") is not None
            for each in ("tag", "and", "objectSizeGreaterThan", "objectSizeLessThan")
        )
        status = lifecycle.get(f"{path}.status")
        if whole and not narrower and status == "Enabled" and isinstance(days, (int, float)) and days > 0:
            return True
    return False
