"""CloudWatch log groups are encrypted with a customer-managed key."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.security._properties import require_key
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.stack import Stack

LOG_GROUP = "aws:cloudwatch/logGroup:LogGroup"


@stack_rule(
    "log-groups-encrypted",
    group="security",
    title="Log groups are encrypted with a customer-managed key",
    why="Control-plane and flow logs show who did what, and which hosts communicate. With a customer-managed "
    "key, reading them also needs a permission on the key.",
    fix="Set `kmsKeyId`, and allow logs.<region>.amazonaws.com to use the key for this log group.",
    severity="medium",
    types=(LOG_GROUP,),
    passes=Example(({"type": LOG_GROUP, "props": {"kmsKeyId": "arn:aws:kms:us-east-1:1:key/k"}},)),
    fails=Example(({"type": LOG_GROUP, "props": {"name": "/gpufleet/flow-logs"}},)),
)
def log_groups_encrypted(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check each log group."""
    for group in map(declared, stack.of_type(LOG_GROUP)):
        yield from require_key(
            stack, group, "kmsKeyId", "a customer-managed key is required", "set it to a KMS key"
        )
