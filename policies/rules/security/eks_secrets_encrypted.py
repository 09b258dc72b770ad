"""EKS encrypts Kubernetes secrets in etcd with a customer-managed key."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._properties import require, require_key
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import CLUSTER


@stack_rule(
    "eks-secrets-encrypted",
    group="security",
    title="Kubernetes secrets are encrypted with a customer-managed key",
    why="Registry credentials and tokens of jobs are Kubernetes secrets. Without a key, etcd stores them in "
    "the clear. The key can be added later but never removed.",
    fix="Set `encryptionConfig` with the key's ARN and `resources: [secrets]`.",
    severity="high",
    framework=fsbp("EKS.3"),
    types=(CLUSTER,),
    passes=Example(
        (
            {
                "type": CLUSTER,
                "props": {
                    "encryptionConfig": {
                        "provider": {"keyArn": "arn:aws:kms:us-east-1:1:key/k"},
                        "resources": ["secrets"],
                    }
                },
            },
        )
    ),
    fails=Example(({"type": CLUSTER, "props": {"name": "atlas"}},)),
)
def eks_secrets_encrypted(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check each cluster."""
    for cluster in map(declared, stack.of_type(CLUSTER)):
        yield from require_key(
            stack,
            cluster,
            "encryptionConfig.provider.keyArn",
            "Kubernetes secrets must be encrypted with a customer-managed key",
            "set it to a KMS key",
        )
        yield from require(
            cluster,
            "encryptionConfig.resources",
            lambda value: isinstance(value, (list, tuple)) and "secrets" in value,
            "secrets must be encrypted",
            "set it to [secrets]",
        )
