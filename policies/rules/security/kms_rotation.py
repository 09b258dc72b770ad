"""KMS keys are rotated every year."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._frameworks import security_hub
from gpufleet.policies.rules.security._properties import is_on, require
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, resource_rule
from gpufleet.resources.resource import Resource

KEY = "aws:kms/key:Key"
EXTERNAL_KEY = "aws:kms/externalKey:ExternalKey"


class KmsRotationSettings(Settings):
    """The longest rotation period."""

    days: int = Field(365, ge=90, le=2560, description="Maximum days between rotations")


@resource_rule(
    "kms-rotation",
    group="security",
    title="KMS keys are rotated",
    why="Rotation limits how much data one key material protects. KMS keeps the old material for "
    "existing data, so nothing needs to be encrypted again.",
    fix="Set `enableKeyRotation: true`.",
    severity="medium",
    framework=security_hub("KMS.4"),
    types=(KEY, EXTERNAL_KEY),
    settings=KmsRotationSettings,
    passes=Example(({"type": KEY, "props": {"enableKeyRotation": True}},)),
    fails=Example(({"type": KEY, "props": {"description": "Objects of a bucket"}},)),
)
def kms_rotation(resource: Resource, context: RuleContext[KmsRotationSettings]) -> Iterator[Violation]:
    """Check symmetric keys with KMS's own material: KMS rotates no others automatically."""
    most = context.settings.days
    if resource.type == EXTERNAL_KEY:
        yield Violation(
            "its material is imported, and KMS does not rotate such a key automatically",
            "use an aws:kms/key with KMS's own material",
            prop="keyMaterialBase64",
        )
        return
    usage = resource.get("keyUsage", "ENCRYPT_DECRYPT")
    spec = resource.get("customerMasterKeySpec", "SYMMETRIC_DEFAULT")
    known = isinstance(usage, str) and isinstance(spec, str)
    if known and (usage, spec) != ("ENCRYPT_DECRYPT", "SYMMETRIC_DEFAULT"):
        return
    yield from require(resource, "enableKeyRotation", is_on, "keys must be rotated", "set it to true")
    yield from require(
        resource,
        "rotationPeriodInDays",
        lambda value: value is None or (isinstance(value, (int, float)) and value <= most),
        f"{most} days is the maximum",
        f"set it to {most}, or remove it (365)",
    )
