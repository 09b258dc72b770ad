"""A folder of an S3 bucket as a volume for the pods of a namespace, by Mountpoint for Amazon S3."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from gpufleet.components.team_volume import TeamVolumeArgs
from gpufleet.errors import InputError

DRIVER = "s3.csi.aws.com"
"""The CSI driver of the add-on `aws-mountpoint-s3-csi-driver`."""

GIB = 1
"""A bucket has no size, and Kubernetes requires one (docs/CONFIGURATION.md of the driver)."""


@dataclass(frozen=True, kw_only=True)
class BucketFolderArgs:
    """The objects below `prefix`, which ends with '/', in a bucket of the cluster's region; `name` is that of
    the claim. Without `write`, they are mounted read-only."""

    name: str
    bucket: pulumi.Input[str]
    prefix: str
    write: bool = True


def bucket_volume(namespace: str, folder: BucketFolderArgs, region: str) -> TeamVolumeArgs:
    """Return the volume of a bucket's folder for this namespace.

    It is mounted with the role of the pod's service account, by EKS Pod Identity: that needs version 2 of the
    driver. The role must list the prefix and nothing above it: Mountpoint lists it first of all. Raises
    InputError for a prefix that Mountpoint refuses.
    """
    if not folder.prefix.endswith("/") or " " in folder.prefix:
        raise InputError(
            f"bucket folder {folder.name}: prefix {folder.prefix!r} is no folder",
            remedy="end it with '/', without spaces",
        )
    return TeamVolumeArgs(
        name=folder.name,
        driver=DRIVER,
        handle=pulumi.Output.concat(folder.bucket, ":", namespace, ":", folder.name),
        attributes={"bucketName": folder.bucket, "authenticationSource": "pod"},
        mount_options=_options(folder, region),
        gib=GIB,
        write=folder.write,
        source=folder.bucket,
    )


def _options(folder: BucketFolderArgs, region: str) -> list[str]:
    """Return options of `mount-s3`. S3 keeps neither owners nor modes: the role decides what is allowed, and
    all users of a pod get the same."""
    # The driver hides instance metadata from Mountpoint, which then does not know its region.
    common = [f"prefix {folder.prefix}", f"region {region}", "allow-other"]
    if not folder.write:
        return common
    return [*common, "allow-delete", "allow-overwrite", "dir-mode 0777", "file-mode 0666"]
