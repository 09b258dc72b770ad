"""CloudWatch log groups are encrypted with a key of the customer's."""

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
    title="Log groups are encrypted with a key of yours",
    why="Control-plane and flow logs show who did what and who talks to whom. With a key of yours, "
    "reading them needs a permission on the key too.",
    fix="Set `kmsKeyId`, and let logs.<region>.amazonaws.com use the key for this one group.",
    severity="medium",
    types=(LOG_GROUP,),
    passes=Example(({"type": LOG_GROUP, "props": {"kmsKeyId": "arn:aws:kms:us-east-1:1:key/k"}},)),
    fails=Example(({"type": LOG_GROUP, "props": {"name": "/gpufleet/flow-logs"}},)),
)
def log_groups_encrypted(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Each log group."""
    for group in map(declared, stack.of_type(LOG_GROUP)):
        yield from require_key(
            stack, group, "kmsKeyId", "a log group needs a key of yours", "name a KMS key in kmsKeyId"
        )
