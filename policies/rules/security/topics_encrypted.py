"""SNS topics are encrypted with a KMS key."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.security._frameworks import security_hub
from gpufleet.policies.rules.security._properties import require_key
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.stack import Stack

TOPIC = "aws:sns/topic:Topic"


@stack_rule(
    "topics-encrypted",
    group="security",
    title="Topics are encrypted",
    why="Alerts of budgets and nodes pass through topics, and SNS encrypts messages only with an explicit "
    "key.",
    fix="Set `kmsMasterKeyId`. A service that publishes must be allowed to use the key, so use your own.",
    severity="medium",
    framework=security_hub("SNS.1"),
    types=(TOPIC,),
    passes=Example(({"type": TOPIC, "props": {"kmsMasterKeyId": "alias/atlas-alerts"}},)),
    fails=Example(({"type": TOPIC, "props": {"name": "alerts"}},)),
)
def topics_encrypted(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check each topic."""
    for topic in map(declared, stack.of_type(TOPIC)):
        yield from require_key(
            stack,
            topic,
            "kmsMasterKeyId",
            "a topic must be encrypted with a KMS key",
            "set it to a KMS key",
            managed_by_aws=True,
        )
