"""SQS queues state their encryption at rest."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._properties import is_on, require, require_key
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.stack import Stack

QUEUE = "aws:sqs/queue:Queue"


@stack_rule(
    "queues-encrypted",
    group="security",
    title="Queues are encrypted",
    why="Interruption and scaling events contain instances, accounts and jobs, and stay in a queue for days.",
    fix="Set `kmsMasterKeyId`, or `sqsManagedSseEnabled: true`.",
    severity="medium",
    framework=fsbp("SQS.1"),
    types=(QUEUE,),
    passes=Example(({"type": QUEUE, "props": {"sqsManagedSseEnabled": True}},)),
    fails=Example(({"type": QUEUE, "props": {"name": "interruptions"}},)),
)
def queues_encrypted(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check each queue: it needs a KMS key, or SQS's own encryption."""
    for queue in map(declared, stack.of_type(QUEUE)):
        if queue.get("kmsMasterKeyId") is not None:
            yield from require_key(
                stack, queue, "kmsMasterKeyId", "a queue is encrypted", "name a KMS key", managed_by_aws=True
            )
        else:
            yield from require(
                queue,
                "sqsManagedSseEnabled",
                is_on,
                "a queue without kmsMasterKeyId must use SQS's own encryption",
                "set sqsManagedSseEnabled to true, or kmsMasterKeyId to a key",
            )
