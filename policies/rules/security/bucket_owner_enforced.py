"""ACLs are switched off: the bucket's owner owns every object, and policies alone give access."""

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
    title="Buckets have ACLs switched off",
    why="An object that another account uploads is that account's where ACLs are on: the bucket's owner "
    "pays for it and cannot read it. S3 switches ACLs off for new buckets; stated, it stays so.",
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
    """Each bucket and its ownership controls."""
    for bucket, controls in configured(stack, OWNERSHIP):
        if not controls:
            yield Violation(
                "nothing says who owns its objects, and the bucket's owner does",
                "add an aws:s3/bucketOwnershipControls with objectOwnership BucketOwnerEnforced",
                urn=bucket.urn,
            )
        for each in controls:
            yield from require(
                each,
                "rule.objectOwnership",
                lambda value: value == "BucketOwnerEnforced",
                "ACLs are switched off",
                "set it to BucketOwnerEnforced",
            )
