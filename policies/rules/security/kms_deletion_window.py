"""A KMS key that was deleted by mistake can be restored for long enough to notice."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._properties import is_off, require
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource

KEY = "aws:kms/key:Key"
TYPES = (
    KEY,
    "aws:kms/externalKey:ExternalKey",
    "aws:kms/replicaKey:ReplicaKey",
    "aws:kms/replicaExternalKey:ReplicaExternalKey",
)


class KmsDeletionWindowSettings(Settings):
    """The shortest waiting period."""

    days: int = Field(30, ge=7, le=30, description="Minimum days between the request and the deletion")


@resource_rule(
    "kms-deletion-window",
    group="security",
    title="A deleted KMS key can be restored for a month",
    why="Everything encrypted with a key is lost with it: file systems, their backups, buckets.",
    fix="Leave `deletionWindowInDays` at 30, and the lockout safety check enabled.",
    severity="medium",
    types=TYPES,
    settings=KmsDeletionWindowSettings,
    passes=Example(({"type": KEY, "props": {"deletionWindowInDays": 30}},)),
    fails=Example(({"type": KEY, "props": {"deletionWindowInDays": 7}},)),
)
def kms_deletion_window(
    resource: Resource, context: RuleContext[KmsDeletionWindowSettings]
) -> Iterator[Violation]:
    """Check keys of all kinds. The default is 30 days."""
    least = context.settings.days
    yield from require(
        resource,
        "deletionWindowInDays",
        lambda value: value is None or (isinstance(value, (int, float)) and value >= least),
        f"{least} days is the minimum",
        f"set it to {least}",
    )
    yield from require(
        resource,
        "bypassPolicyLockoutSafetyCheck",
        lambda value: value is None or is_off(value),
        "a policy that locks out every principal makes the key unusable",
        "set it to false",
    )
