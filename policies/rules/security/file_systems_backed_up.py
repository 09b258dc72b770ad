"""Permanent file systems have automatic backups, if AWS supports them, and a final backup."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.security._frameworks import security_hub
from gpufleet.policies.rules.security._properties import is_off, require
from gpufleet.policies.rules.security._temporary import TemporaryEnvironmentSettings, is_temporary
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Violation, stack_rule
from gpufleet.resources.launches import declared
from gpufleet.resources.lustre import is_scratch
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import LUSTRE

ASSOCIATION = "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"
OTHERS = (
    "aws:fsx/ontapFileSystem:OntapFileSystem",
    "aws:fsx/openZfsFileSystem:OpenZfsFileSystem",
    "aws:fsx/windowsFileSystem:WindowsFileSystem",
)


class FileSystemsBackedUpSettings(TemporaryEnvironmentSettings):
    """How long backups are kept."""

    days: int = Field(1, ge=1, le=90, description="Minimum retention of automatic backups in days")


@stack_rule(
    "file-systems-backed-up",
    group="security",
    title="Permanent file systems are backed up",
    why="One command can empty a file system with weeks of checkpoints. FSx supports backups neither of "
    "scratch file systems nor of those linked to a bucket, where the bucket is the permanent copy.",
    fix="Set `automaticBackupRetentionDays` and `skipFinalBackup: false` (fleet file: lustre.backups).",
    severity="medium",
    framework=security_hub("Backup.1"),
    types=(LUSTRE, ASSOCIATION, *OTHERS),
    settings=FileSystemsBackedUpSettings,
    passes=Example(
        (
            {
                "type": LUSTRE,
                "props": {
                    "deploymentType": "PERSISTENT_2",
                    "automaticBackupRetentionDays": 7,
                    "skipFinalBackup": False,
                },
            },
        )
    ),
    fails=Example(({"type": LUSTRE, "props": {"deploymentType": "PERSISTENT_2", "skipFinalBackup": True}},)),
)
def file_systems_backed_up(
    stack: Stack, context: RuleContext[FileSystemsBackedUpSettings]
) -> Iterator[Violation]:
    """Check FSx file systems outside temporary environments."""
    if is_temporary(context):
        return
    linked = {
        each.urn
        for association in stack.of_type(ASSOCIATION)
        for each in stack.of_type(LUSTRE)
        if stack.refers(association, "fileSystemId", each)
    }
    for system in map(declared, stack.of_type(LUSTRE, *OTHERS)):
        if system.type == LUSTRE and (
            is_scratch(system) or system.urn in linked or system.get("importPath") is not None
        ):
            continue
        yield from _backed_up(system, context.settings.days)


def _backed_up(system: Resource, days: int) -> Iterator[Violation]:
    yield from require(
        system,
        "automaticBackupRetentionDays",
        lambda value: isinstance(value, (int, float)) and value >= days,
        f"backups must be kept for {days} day(s) or longer",
        f"set it to {days} or more (fleet file: lustre.backups)",
    )
    if system.type != OTHERS[0]:
        yield from require(
            system,
            "skipFinalBackup",
            lambda value: is_off(value) or (value is None and system.type != LUSTRE),
            "a final backup must be taken when it is deleted",
            "set it to false",
        )
