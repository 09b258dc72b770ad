"""Secrets are encrypted: in Secrets Manager with a customer-managed key, or as SecureString parameters."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.security._frameworks import well_architected
from gpufleet.policies.rules.security._properties import require, require_key
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.stack import Stack

SECRET = "aws:secretsmanager/secret:Secret"  # noqa: S105 - a type token
PARAMETER = "aws:ssm/parameter:Parameter"


@stack_rule(
    "secrets-encrypted",
    group="security",
    title="Secrets are encrypted with a customer-managed key",
    why="A role with access to secrets can read those under AWS's own key. A customer-managed key needs a "
    "separate permission. Every role with ssm:GetParameter can read a plain parameter.",
    fix="Set `kmsKeyId` on secrets and `type: SecureString` on parameters; use `insecureValue` for a "
    "parameter that is not secret.",
    severity="high",
    framework=well_architected("SEC02-BP03", "sec_identities_secrets"),
    types=(SECRET, PARAMETER),
    passes=Example(
        (
            {"type": SECRET, "name": "token", "props": {"kmsKeyId": "alias/atlas-secrets"}},
            {"type": PARAMETER, "name": "image", "props": {"type": "String", "insecureValue": "ami-1"}},
        )
    ),
    fails=Example(({"type": PARAMETER, "name": "token", "props": {"type": "String", "value": "s3cr3t"}},)),
)
def secrets_encrypted(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check secrets, their replicas in other regions, and parameters."""
    rule = "a secret needs a customer-managed key"
    for secret in map(declared, stack.of_type(SECRET)):
        yield from require_key(stack, secret, "kmsKeyId", rule, "set it to a KMS key")
        for path, _ in secret.items("replicas"):
            yield from require_key(stack, secret, f"{path}.kmsKeyId", rule, "set it to a key of that region")
    for parameter in map(declared, stack.of_type(PARAMETER)):
        if parameter.get("insecureValue") is not None and parameter.get("value") is None:
            continue
        yield from require(
            parameter,
            "type",
            lambda value: value == "SecureString",
            "a parameter with a `value` must be a SecureString",
            "set type to SecureString, or use insecureValue if it is not secret",
        )
