"""Log groups keep logs for a stated time that is long enough for an investigation."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.kinds import LOG_RETENTION_DAYS
from gpufleet.policies.rules.security._frameworks import security_hub
from gpufleet.policies.rules.security._properties import require
from gpufleet.policies.rules.security.log_groups_encrypted import LOG_GROUP
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource


class LogRetentionSettings(Settings):
    """The shortest retention."""

    days: int = Field(LOG_RETENTION_DAYS, ge=1, description="Minimum days; 0 in a log group means no expiry")
    forever: bool = Field(False, description="Whether logs may be kept without expiry")


@resource_rule(
    "log-retention",
    group="security",
    title="Logs are kept for a stated time",
    why="A break-in is found months later on average. Logs without expiry cost more every month.",
    fix="Set `retentionInDays`.",
    severity="low",
    framework=security_hub("CloudWatch.16"),
    types=(LOG_GROUP,),
    settings=LogRetentionSettings,
    passes=Example(({"type": LOG_GROUP, "props": {"retentionInDays": LOG_RETENTION_DAYS}},)),
    fails=Example(({"type": LOG_GROUP, "props": {"retentionInDays": 7}},)),
)
def log_retention(resource: Resource, context: RuleContext[LogRetentionSettings]) -> Iterator[Violation]:
    """Check each log group."""
    least, forever = context.settings.days, context.settings.forever

    def enough(value: object) -> bool:
        if not isinstance(value, (int, float)):
            return value is None and forever
        return forever if value == 0 else value >= least

    yield from require(
        resource,
        "retentionInDays",
        enough,
        f"logs must be kept for {least} days or longer, with an expiry",
        f"set it to {least}",
    )
