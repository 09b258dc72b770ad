"""SQS queues are encrypted at rest, by their own statement."""

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
    why="Interruption and scaling events name instances, accounts and jobs; they lie in a queue for days.",
    fix="Set `kmsMasterKeyId`, or `sqsManagedSseEnabled: true`.",
    severity="medium",
    framework=fsbp("SQS.1"),
    types=(QUEUE,),
    passes=Example(({"type": QUEUE, "props": {"sqsManagedSseEnabled": True}},)),
    fails=Example(({"type": QUEUE, "props": {"name": "interruptions"}},)),
)
def queues_encrypted(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Each queue: with a key of KMS, or with SQS's own."""
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
                "a queue without kmsMasterKeyId is encrypted by SQS",
                "set sqsManagedSseEnabled to true, or name a key in kmsMasterKeyId",
            )
