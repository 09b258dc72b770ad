"""EKS encrypts Kubernetes secrets with a key of the customer's before they reach etcd."""

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
    title="Kubernetes secrets are encrypted with a key of yours",
    why="Registry credentials and tokens of jobs are Kubernetes secrets, and etcd keeps them in the clear "
    "unless the cluster has a key for them. The key can be added later, and never be taken back.",
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
    """Each cluster."""
    for cluster in map(declared, stack.of_type(CLUSTER)):
        yield from require_key(
            stack,
            cluster,
            "encryptionConfig.provider.keyArn",
            "Kubernetes secrets are encrypted with a key of yours",
            "name a KMS key there",
        )
        yield from require(
            cluster,
            "encryptionConfig.resources",
            lambda value: isinstance(value, (list, tuple)) and "secrets" in value,
            "secrets are what is encrypted",
            "set it to [secrets]",
        )
