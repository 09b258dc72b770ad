"""Storage is neither deleted nor replaced without approval."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from gpufleet.policies.rules.change_safety._expiry import earlier_expiry
from gpufleet.policies.rules.change_safety._removals import forced, removals
from gpufleet.policies.rules.security._buckets import LIFECYCLE
from gpufleet.policy.change import StackChange
from gpufleet.policy.context import RuleContext
from gpufleet.policy.rule import Example, Settings, Violation, change_rule
from gpufleet.resources.resource import Resource
from gpufleet.resources.types import BUCKETS, EFS, LUSTRE, VOLUME

KEYS = ("aws:kms/key:Key", "aws:kms/externalKey:ExternalKey", "aws:kms/replicaKey:ReplicaKey")
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"
PERSISTENT_VOLUME = "kubernetes:core/v1:PersistentVolume"
DATA = (
    LUSTRE,
    EFS,
    VOLUME,
    *BUCKETS,
    "aws:s3/directoryBucket:DirectoryBucket",
    "aws:s3tables/tableBucket:TableBucket",
    "aws:fsx/openZfsFileSystem:OpenZfsFileSystem",
    "aws:fsx/openZfsVolume:OpenZfsVolume",
    "aws:fsx/ontapFileSystem:OntapFileSystem",
    "aws:fsx/ontapVolume:OntapVolume",
    "aws:fsx/windowsFileSystem:WindowsFileSystem",
    "aws:fsx/fileCache:FileCache",
    "aws:fsx/backup:Backup",
    "aws:ebs/snapshot:Snapshot",
    "aws:ecr/repository:Repository",
    "aws:ecrpublic/repository:Repository",
    "aws:dynamodb/table:Table",
    "aws:rds/cluster:Cluster",
    "aws:rds/instance:Instance",
    "aws:backup/vault:Vault",
    CLAIM,
    PERSISTENT_VOLUME,
)
_ENCRYPTED_BY = ("aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",)


class StorageSurvivesSettings(Settings):
    """Which storage may be deleted."""

    scratch: bool = Field(
        False, description="Whether SCRATCH file systems may be deleted: their data is also elsewhere"
    )


@change_rule(
    "storage-survives",
    group="change-safety",
    title="Storage survives a change",
    why="Replacing a file system creates a new, empty one. Deleting a key makes everything encrypted with it "
    "unreadable. A bucket that expires objects sooner also deletes existing objects. Weeks of checkpoints "
    "can be lost in a minute.",
    fix="Revert the property that forces the replacement, rename with an alias, or add an exemption for the "
    "resource once its data is elsewhere.",
    severity="critical",
    types=(*DATA, *KEYS, *LIFECYCLE),
    settings=StorageSurvivesSettings,
    fleet_field="cloud",
    passes=Example(
        ({"type": LUSTRE, "name": "checkpoints", "props": {"storageCapacity": 4800}},),
        before=({"type": LUSTRE, "name": "checkpoints", "props": {"storageCapacity": 2400}},),
    ),
    fails=Example(
        (
            {
                "type": LUSTRE,
                "name": "checkpoints",
                "props": {"deploymentType": "SCRATCH_2", "__replace": ["deploymentType"]},
            },
        ),
        before=({"type": LUSTRE, "name": "checkpoints", "props": {"deploymentType": "PERSISTENT_2"}},),
    ),
)
def storage_survives(
    change: StackChange, context: RuleContext[StorageSurvivesSettings]
) -> Iterator[Violation]:
    """Check resources that hold data, their encryption keys, and the expiry of bucket objects."""
    for bucket, how in earlier_expiry(change):
        yield Violation(
            f"{bucket.name} keeps its data for a shorter time: {how}",
            "keep the time, or add an exemption once older data is not needed (fleet file: "
            "bucket.expire_after)",
            urn=bucket.urn,
            fleet_field="bucket",
        )
    for step, fate in removals(change, (*DATA, *KEYS)):
        before = step.before
        if before is None or (fate == "delete" and before.options.retain_on_delete):
            continue
        if context.settings.scratch and str(before.get("deploymentType")).startswith("SCRATCH"):
            continue
        if _retained(before, change):
            continue
        if before.type in KEYS:
            users = sorted(each.name for each in change.before if _encrypted_by(each, before))
            if users:
                yield Violation(
                    f"the key of {', '.join(users[:3])} would be {fate}d{forced(step)}, and the data "
                    "encrypted with it would be unreadable",
                    "keep the key, or add an exemption once nothing needs it",
                    urn=step.urn,
                )
            continue
        yield Violation(
            f"{before.name} would be {fate}d{forced(step)}, with everything in it",
            "revert what forces it, rename with an alias, or add an exemption of storage-survives once "
            "its data is elsewhere",
            urn=step.urn,
            prop=step.replace_keys[0] if step.replace_keys else "",
        )


def _retained(resource: Resource, change: StackChange) -> bool:
    """Return whether it is a volume that Kubernetes leaves as it is, or the claim of one in this stack."""
    if resource.type == CLAIM:
        name = resource.get("spec.volumeName")
        volumes = [
            each
            for each in change.before
            if each.type == PERSISTENT_VOLUME and each.get("metadata.name") == name
        ]
        return isinstance(name, str) and bool(volumes) and all(_retained(each, change) for each in volumes)
    return (
        resource.type == PERSISTENT_VOLUME and resource.get("spec.persistentVolumeReclaimPolicy") == "Retain"
    )


def _encrypted_by(resource: Resource, key: Resource) -> bool:
    if resource.type not in (*DATA, *_ENCRYPTED_BY):
        return False
    if any(key.urn in urns for urns in resource.property_dependencies.values()):
        return True
    names = {value for prop in ("arn", "keyId", "id") if isinstance(value := key.get(prop), str)}
    return resource.get("kmsKeyId") in names
