"""Image repositories, tables, databases and backup vaults are encrypted with a customer-managed key."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.security._properties import is_on, require, require_key
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.stack import Stack

REPOSITORY = "aws:ecr/repository:Repository"
TABLE = "aws:dynamodb/table:Table"
VAULT = "aws:backup/vault:Vault"
DATABASES = ("aws:rds/instance:Instance", "aws:rds/cluster:Cluster")

_FLAGS = {TABLE: "serverSideEncryption.enabled", **dict.fromkeys(DATABASES, "storageEncrypted")}
_KEYS = {
    REPOSITORY: "encryptionConfigurations[0].kmsKey",
    TABLE: "serverSideEncryption.kmsKeyArn",
    VAULT: "kmsKeyArn",
    **dict.fromkeys(DATABASES, "kmsKeyId"),
}


@stack_rule(
    "data-stores-encrypted",
    group="security",
    title="Repositories, tables, databases and backup vaults are encrypted with a customer-managed key",
    why="They contain images with code, job accounting and copies of file systems. Access to AWS's own keys "
    "cannot be revoked.",
    fix="Set a KMS key: `encryptionConfigurations`, `serverSideEncryption`, `kmsKeyArn` or `kmsKeyId`.",
    severity="medium",
    types=tuple(_KEYS),
    passes=Example(({"type": VAULT, "props": {"kmsKeyArn": "arn:aws:kms:us-east-1:1:key/k"}},)),
    fails=Example(({"type": VAULT, "props": {"name": "atlas"}},)),
)
def data_stores_encrypted(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check each of the types by the property that holds its key."""
    for store in map(declared, stack.of_type(*_KEYS)):
        if store.type in _FLAGS:
            yield from require(store, _FLAGS[store.type], is_on, "it must be encrypted", "set it to true")
        if store.type == REPOSITORY:
            yield from require(
                store,
                "encryptionConfigurations[0].encryptionType",
                lambda value: value in ("KMS", "KMS_DSSE"),
                "KMS is required",
                "set it to KMS",
            )
        yield from require_key(
            stack, store, _KEYS[store.type], "a customer-managed key is required", "set it to a KMS key"
        )
