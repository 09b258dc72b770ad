"""Every bucket blocks public access with all four settings."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.security._buckets import BLOCK, configured
from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._properties import is_on, require
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import BUCKETS

ACCOUNT_BLOCK = "aws:s3/accountPublicAccessBlock:AccountPublicAccessBlock"
ACCESS_POINT = "aws:s3/accessPoint:AccessPoint"
SWITCHES = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
RULE = "all four settings must be true"
REMEDY = "set it to true"

_BUCKET = {"type": BUCKETS[0], "name": "corpus", "props": {"bucket": "atlas-corpus"}}


@stack_rule(
    "bucket-public-access-blocked",
    group="security",
    title="Buckets block public access",
    why="One ACL or policy statement can make a bucket public. With the block neither has an effect.",
    fix="Add an `aws:s3/bucketPublicAccessBlock` with all four settings true for each bucket.",
    severity="critical",
    framework=fsbp("S3.8"),
    types=(*BUCKETS, *BLOCK, ACCOUNT_BLOCK, ACCESS_POINT),
    passes=Example(
        (
            _BUCKET,
            {
                "type": BLOCK[0],
                "name": "block",
                "props": {"bucket": "atlas-corpus", **dict.fromkeys(SWITCHES, True)},
            },
        )
    ),
    fails=Example((_BUCKET,)),
)
def bucket_public_access_blocked(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check buckets without a block, blocks of buckets and accounts, and blocks of access points."""
    for bucket, blocks in configured(stack, BLOCK):
        if not blocks:
            yield Violation(
                "it has no public access block, and every bucket needs one",
                "add an aws:s3/bucketPublicAccessBlock for it, with all four settings true",
                urn=bucket.urn,
            )
    for block in map(declared, stack.of_type(*BLOCK, ACCOUNT_BLOCK)):
        for switch in SWITCHES:
            yield from require(block, switch, is_on, RULE, REMEDY)
    for point in map(declared, stack.of_type(ACCESS_POINT)):
        for switch in SWITCHES:
            yield from require(
                point,
                f"publicAccessBlockConfiguration.{switch}",
                lambda value: value is None or is_on(value),
                RULE,
                REMEDY,
            )
