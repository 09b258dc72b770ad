"""Lasting file systems are backed up by themselves, where AWS can, and once more when they go."""

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
from gpufleet.resources.resource import Resource, is_unknown
from gpufleet.resources.stack import Stack
from gpufleet.resources.types import LUSTRE

ASSOCIATION = "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"
OTHERS = (
    "aws:fsx/ontapFileSystem:OntapFileSystem",
    "aws:fsx/openZfsFileSystem:OpenZfsFileSystem",
    "aws:fsx/windowsFileSystem:WindowsFileSystem",
)


class FileSystemsBackedUpSettings(TemporaryEnvironmentSettings):
    """For how long."""

    days: int = Field(1, ge=1, le=90, description="Days that automatic backups are kept at least")


@stack_rule(
    "file-systems-backed-up",
    group="security",
    title="Lasting file systems are backed up",
    why="Checkpoints of weeks lie on a file system that one command empties. FSx backs up neither scratch "
    "file systems nor those linked to a bucket: the bucket is the lasting copy there.",
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
    """FSx outside temporary environments."""
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
        lambda value: not is_unknown(value) and isinstance(value, (int, float)) and value >= days,
        f"backups are kept for {days} day(s) or longer",
        f"set it to {days} or more (fleet file: lustre.backups)",
    )
    if system.type != OTHERS[0]:
        yield from require(
            system,
            "skipFinalBackup",
            lambda value: is_off(value) or (value is None and system.type != LUSTRE),
            "a last backup is taken when it is deleted",
            "set it to false",
        )
