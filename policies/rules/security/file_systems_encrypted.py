"""File systems are encrypted with a customer-managed key, if AWS supports it."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.policies.rules.security._frameworks import fsbp
from gpufleet.policies.rules.security._properties import is_on, require, require_key
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.lustre import is_scratch
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import EFS, LUSTRE

OTHERS = (
    "aws:fsx/ontapFileSystem:OntapFileSystem",
    "aws:fsx/openZfsFileSystem:OpenZfsFileSystem",
    "aws:fsx/windowsFileSystem:WindowsFileSystem",
    "aws:fsx/fileCache:FileCache",
    EFS,
)
RULE = "a file system that keeps data needs a customer-managed key"
REMEDY = "set it to a KMS key"


@stack_rule(
    "file-systems-encrypted",
    group="security",
    title="File systems are encrypted with a customer-managed key",
    why="Shared file systems contain training data and checkpoints. With a separate key, access to a file "
    "system and all its backups can be revoked at once. FSx encrypts scratch file systems of Lustre only "
    "with its own key, so the rule skips them.",
    fix="Set `kmsKeyId` (and `encrypted: true` on EFS).",
    severity="high",
    framework=fsbp("EFS.1"),
    types=(LUSTRE, *OTHERS),
    passes=Example(
        (
            {"type": "aws:kms/key:Key", "name": "key", "props": {}},
            {
                "type": LUSTRE,
                "name": "shared",
                "props": {"deploymentType": "PERSISTENT_2", "kmsKeyId": "arn:aws:kms:us-east-1:1:key/k"},
                "depends": {"kmsKeyId": ["key"]},
            },
        )
    ),
    fails=Example(({"type": LUSTRE, "props": {"deploymentType": "PERSISTENT_2"}},)),
)
def file_systems_encrypted(stack: Stack, context: RuleContext[Settings]) -> Iterator[Violation]:
    """Check FSx and EFS file systems."""
    for system in map(declared, stack.of_type(LUSTRE)):
        if not is_scratch(system):
            yield from require_key(stack, system, "kmsKeyId", RULE, REMEDY)
    for system in map(declared, stack.of_type(*OTHERS)):
        if system.type == EFS:
            yield from require(system, "encrypted", is_on, "EFS encrypts only if requested", "set it to true")
        yield from require_key(stack, system, "kmsKeyId", RULE, REMEDY)
