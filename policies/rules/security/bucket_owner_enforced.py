"""ACLs are disabled: the bucket's owner owns every object, and only policies grant access."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.security._buckets import ACL, OWNERSHIP, configured
from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._properties import require
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import BUCKETS

_BUCKET = {"type": BUCKETS[0], "name": "corpus", "props": {"bucket": "atlas-corpus"}}


@stack_rule(
    "bucket-owner-enforced",
    group="security",
    title="Buckets have ACLs disabled",
    why="With ACLs enabled, an object that another account uploads belongs to it: the bucket's owner "
    "pays for it and cannot read it. S3 disables ACLs on new buckets; an explicit setting keeps it so.",
    fix="Add an `aws:s3/bucketOwnershipControls` with `objectOwnership: BucketOwnerEnforced`.",
    severity="medium",
    framework=fsbp("S3.12"),
    types=(*BUCKETS, *OWNERSHIP, *ACL),
    passes=Example(
        (
            _BUCKET,
            {
                "type": OWNERSHIP[0],
                "name": "owner",
                "props": {"bucket": "atlas-corpus", "rule": {"objectOwnership": "BucketOwnerEnforced"}},
            },
        )
    ),
    fails=Example(
        (
            _BUCKET,
            {
                "type": OWNERSHIP[0],
                "name": "owner",
                "props": {"bucket": "atlas-corpus", "rule": {"objectOwnership": "ObjectWriter"}},
            },
        )
    ),
)
def bucket_owner_enforced(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check each bucket and its ownership controls."""
    for bucket, controls in configured(stack, OWNERSHIP):
        if not controls:
            yield Violation(
                "it has no ownership controls, and the bucket's owner must own all objects",
                "add an aws:s3/bucketOwnershipControls with objectOwnership BucketOwnerEnforced",
                urn=bucket.urn,
            )
        for each in controls:
            yield from require(
                each,
                "rule.objectOwnership",
                lambda value: value == "BucketOwnerEnforced",
                "ACLs must be disabled",
                "set it to BucketOwnerEnforced",
            )
