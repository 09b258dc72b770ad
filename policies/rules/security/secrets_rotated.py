"""Secrets of Secrets Manager are rotated."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._properties import require
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack

SECRET = "aws:secretsmanager/secret:Secret"  # noqa: S105 - a type token
ROTATION = "aws:secretsmanager/secretRotation:SecretRotation"


class SecretsRotatedSettings(Settings):
    """The longest rotation period."""

    days: int = Field(90, ge=1, le=1000, description="Maximum days between rotations")


_SECRET = {"type": SECRET, "name": "token", "props": {}}


@stack_rule(
    "secrets-rotated",
    group="security",
    title="Secrets are rotated",
    why="A leaked secret stays usable until it is changed.",
    fix="Add an `aws:secretsmanager/secretRotation` with `automaticallyAfterDays`.",
    severity="medium",
    framework=fsbp("SecretsManager.1"),
    types=(SECRET, ROTATION),
    settings=SecretsRotatedSettings,
    passes=Example(
        (
            _SECRET,
            {
                "type": ROTATION,
                "name": "rotation",
                "props": {"rotationRules": {"automaticallyAfterDays": 30}},
                "depends": {"secretId": ["token"]},
            },
        )
    ),
    fails=Example((_SECRET,)),
)
def secrets_rotated(stack: Stack, context: RuleContext[SecretsRotatedSettings]) -> Iterator[Violation]:
    """Check each secret and the rotation that refers to it."""
    for secret in stack.of_type(SECRET):
        rotations = [
            each
            for attribute in ("id", "arn")
            for each in stack.referrers(secret, "secretId", ROTATION, attribute=attribute)
        ]
        if not rotations:
            yield Violation(
                f"it is never rotated, and {context.settings.days} days is the maximum",
                "add an aws:secretsmanager/secretRotation for it",
                urn=secret.urn,
            )
        for rotation in {each.urn: each for each in rotations}.values():
            yield from _often(declared(rotation), context.settings.days)


def _often(rotation: Resource, most: int) -> Iterator[Violation]:
    path = "rotationRules.automaticallyAfterDays"
    schedule = rotation.get("rotationRules.scheduleExpression")
    if isinstance(schedule, str) and rotation.get(path) is None:
        found = schedule.strip().lower().removeprefix("rate(").removesuffix(")").split()
        if len(found) == 2 and found[0].isdigit() and found[1].startswith(("day", "hour")):
            if int(found[0]) <= (most if found[1].startswith("day") else most * 24):
                return
        elif schedule.strip().lower().startswith("cron("):
            # A cron expression matches at least once a month.
            return
    yield from require(
        rotation,
        path,
        lambda value: isinstance(value, (int, float)) and 0 < value <= most,
        f"{most} days is the maximum",
        f"set it to {most} or less",
    )
