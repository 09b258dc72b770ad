"""Every bucket rejects requests without TLS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpufleet.policies.rules.security._buckets import POLICY, configured
from gpufleet.policies.rules.security._documents import Document, Statement, parse
from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._properties import ignored
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.resource import UNKNOWN, Resource
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import BUCKETS

REMEDY = (
    "add a Deny statement for Principal '*', Action s3:*, the bucket and its objects, with the Condition "
    "Bool aws:SecureTransport 'false'"
)


def _example(effect: str) -> Example:
    statement: Mapping[str, Any] = {
        "Effect": effect,
        "Principal": "*",
        "Action": "s3:*",
        "Resource": ["arn:aws:s3:::atlas-corpus", "arn:aws:s3:::atlas-corpus/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return Example(
        (
            {"type": BUCKETS[0], "name": "corpus", "props": {"bucket": "atlas-corpus"}},
            {
                "type": POLICY[0],
                "name": "tls",
                "props": {"bucket": "atlas-corpus", "policy": {"Statement": [statement]}},
            },
        )
    )


@stack_rule(
    "bucket-tls-only",
    group="security",
    title="Buckets accept only TLS",
    why="S3 accepts plain HTTP, with data and signed requests in the clear, unless the bucket's policy "
    "denies it. The policy must be known in a preview, so build its ARNs from the bucket's name, which "
    "is an input, not from the bucket's outputs.",
    fix="Add an `aws:s3/bucketPolicy` that denies all requests where aws:SecureTransport is false.",
    severity="medium",
    framework=fsbp("S3.5"),
    types=(*BUCKETS, *POLICY),
    passes=_example("Deny"),
    fails=_example("Allow"),
)
def bucket_tls_only(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check each bucket's only policy: inline or a separate resource, of which S3 keeps the last one."""
    for bucket, policies in configured(stack, POLICY):
        holders = [*([bucket] if bucket.get("policy") is not None else []), *policies]
        if len(holders) != 1:
            yield Violation(
                "it has no policy, and every bucket must reject requests without TLS"
                if not holders
                else f"it has {len(holders)} policies, of which S3 keeps only the last one",
                REMEDY if not holders else "write one policy with all statements",
                urn=bucket.urn,
            )
        for holder in holders:
            yield from _check(bucket, holder)


def _check(bucket: Resource, holder: Resource) -> Iterator[Violation]:
    document = parse(holder.get("policy"))
    name = bucket.get("bucket", UNKNOWN)
    if not any(_refuses(statement, name) for statement in document):
        yield Violation(
            f"policy is {_state(document)}, and it must reject requests without TLS",
            "build the ARNs from the bucket's name, so that the policy is known in a preview"
            if document.unknown
            else REMEDY,
            urn=holder.urn,
            prop="policy",
            unknown=document.unknown,
        )
    elif holder.ignores("policy"):
        yield ignored(holder, "policy", "it must reject requests without TLS")


def _state(document: Document) -> str:
    if document.error:
        return f"not a policy: {document.error}"
    return "not known yet" if document.unknown else "without such a statement"


def _refuses(statement: Statement, bucket: object) -> bool:
    if statement.unknown or statement.effect != "deny" or statement.not_actions or statement.not_resources:
        return False
    everybody = not statement.not_principals and statement.any_principal
    everything = any(action in ("*", "s3:*") for action in statement.actions)
    (condition,) = statement.conditions if len(statement.conditions) == 1 else (None,)
    plain = (
        condition is not None
        and condition.operator in ("bool", "boolifexists")
        and condition.key == "aws:securetransport"
        and tuple(value.lower() for value in condition.values) == ("false",)
    )
    return everybody and everything and plain and _whole(statement, bucket)


def _whole(statement: Statement, bucket: object) -> bool:
    """Return whether the statement applies to the bucket and to its objects."""
    names = {each.strip().rpartition(":::")[2] for each in statement.resources}
    if "*" in names:
        return True
    if not isinstance(bucket, str):
        return any(f"{name}/*" in names for name in names)
    return {bucket, f"{bucket}/*"} <= names or f"{bucket}*" in names
