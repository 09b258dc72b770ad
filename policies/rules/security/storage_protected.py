"""Storage, its keys and clusters are protected from accidental deletion, outside temporary environments."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.security._properties import KEYS, is_off, is_on, require
from gpufleet.policies.rules.security._temporary import TemporaryEnvironmentSettings, is_temporary
from gpufleet.policies.rules.security.data_stores_encrypted import DATABASES, TABLE, VAULT
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import BUCKETS, CLUSTER, EFS, LUSTRE

FILE_SYSTEMS = (
    LUSTRE,
    EFS,
    "aws:fsx/ontapFileSystem:OntapFileSystem",
    "aws:fsx/openZfsFileSystem:OpenZfsFileSystem",
    "aws:fsx/windowsFileSystem:WindowsFileSystem",
)
STORAGE = (*BUCKETS, *FILE_SYSTEMS)
_FLAGS = {CLUSTER: "deletionProtection", TABLE: "deletionProtectionEnabled"} | dict.fromkeys(
    DATABASES, "deletionProtection"
)
_ENCRYPTION = {
    **dict.fromkeys(FILE_SYSTEMS, "kmsKeyId"),
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": "rules",
    "aws:s3/bucketServerSideEncryptionConfigurationV2:BucketServerSideEncryptionConfigurationV2": "rules",
}


@stack_rule(
    "storage-protected",
    group="security",
    title="Storage, its keys and clusters are protected from deletion",
    why="Renaming a resource deletes it and creates another: without protection the next `up` deletes "
    "checkpoints. Deleting a key makes the data that it encrypts unreadable.",
    fix="Set the resource option `protect` (stack configuration gpufleet:protect), `forceDestroy: false` on "
    "buckets and `deletionProtection: true` on clusters.",
    severity="high",
    types=(*STORAGE, *_FLAGS, VAULT, *_ENCRYPTION, *KEYS),
    settings=TemporaryEnvironmentSettings,
    passes=Example(({"type": BUCKETS[0], "props": {"forceDestroy": False}, "options": {"protect": True}},)),
    fails=Example(({"type": BUCKETS[0], "props": {"forceDestroy": True}},)),
)
def storage_protected(
    stack: Stack, context: RuleContext[TemporaryEnvironmentSettings]
) -> Iterator[Violation]:
    """Check buckets, file systems, their encryption keys, clusters, tables and databases."""
    if is_temporary(context):
        return
    for storage in stack.of_type(*STORAGE):
        yield from _protected(storage)
    keys = {
        key.urn: key
        for kind, prop in _ENCRYPTION.items()
        for each in stack.of_type(kind)
        for key in stack.references(each, prop, types=KEYS)
    }
    for key in keys.values():
        yield from _protected(key)
    for resource in map(declared, stack.of_type(*BUCKETS, VAULT)):
        yield from require(
            resource,
            "forceDestroy",
            lambda value: value is None or is_off(value),
            "it must not be deleted with all its contents",
            "set it to false",
        )
    for resource in map(declared, stack.of_type(*_FLAGS)):
        yield from require(
            resource, _FLAGS[resource.type], is_on, "it must be protected from deletion", "set it to true"
        )


def _protected(resource: Resource) -> Iterator[Violation]:
    if not resource.options.protect:
        yield Violation(
            "protect is false, and resources with data must be protected from deletion",
            "set the resource option protect (stack configuration gpufleet:protect)",
            urn=resource.urn,
        )
