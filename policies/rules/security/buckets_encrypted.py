"""Every bucket states its encryption."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._buckets import ENCRYPTION, configured
from gpufleet.policies.rules.security._frameworks import security_hub
from gpufleet.policies.rules.security._properties import require
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import BUCKETS


class BucketsEncryptedSettings(Settings):
    """Allowed encryption of buckets."""

    algorithms: tuple[str, ...] = Field(
        ("aws:kms", "aws:kms:dsse", "AES256"),
        description="Allowed values of sseAlgorithm; without AES256, S3's own keys are not sufficient",
    )


BUCKET = BUCKETS[0]
_BUCKET = {"type": BUCKET, "name": "corpus", "props": {"bucket": "atlas-corpus"}}


@stack_rule(
    "buckets-encrypted",
    group="security",
    title="Buckets state their default encryption",
    why="By default S3 encrypts new objects with its own keys. With a KMS key, reading also needs a "
    "permission on the key, which can be revoked.",
    fix="Add an `aws:s3/bucketServerSideEncryptionConfiguration` with `sseAlgorithm: aws:kms`.",
    severity="medium",
    framework=security_hub("S3.17"),
    types=(*BUCKETS, *ENCRYPTION),
    settings=BucketsEncryptedSettings,
    passes=Example(
        (
            _BUCKET,
            {
                "type": ENCRYPTION[0],
                "name": "encryption",
                "props": {
                    "bucket": "atlas-corpus",
                    "rules": [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "aws:kms"}}],
                },
            },
        )
    ),
    fails=Example((_BUCKET,)),
)
def buckets_encrypted(stack: Stack, context: RuleContext[BucketsEncryptedSettings]) -> Iterator[Violation]:
    """Check the bucket's own configuration, or the resource that configures it."""
    allowed = context.settings.algorithms
    for bucket, configurations in configured(stack, ENCRYPTION):
        inline = "serverSideEncryptionConfiguration"
        paths: list[tuple[Resource, str]] = []
        if bucket.get(inline) is not None:
            paths.append((bucket, f"{inline}.rule"))
        for each in configurations:
            rules = [path for path, _ in each.items("rules")]
            paths += [(each, path) for path in rules or ["rules[0]"]]
        if not paths:
            yield Violation(
                "it has no default encryption, and every bucket must state it",
                "add an aws:s3/bucketServerSideEncryptionConfiguration for it",
                urn=bucket.urn,
                prop=inline,
            )
        for resource, path in paths:
            algorithm = f"{path}.applyServerSideEncryptionByDefault.sseAlgorithm"
            yield from require(
                resource,
                algorithm,
                lambda value: value in allowed,
                f"{' or '.join(allowed)} is required",
                f"set sseAlgorithm to {allowed[0]}",
            )
