"""An FSx for Lustre file system for the pods of a namespace: a volume, and the claim that is bound to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

DRIVER = "fsx.csi.aws.com"
"""The CSI driver of the add-on `aws-fsx-csi-driver`."""


@dataclass(frozen=True, kw_only=True)
class FileSystemArgs:
    """A file system by its name, and what the driver mounts: `dns_name` and `mount_name`.

    Without `write`, it is mounted read-only. `capacity_gib` is informative: the driver enforces none.
    """

    name: str
    file_system_id: pulumi.Input[str]
    dns_name: pulumi.Input[str]
    mount_name: pulumi.Input[str]
    capacity_gib: int
    write: bool = True


def file_system_volume(
    label: str,
    namespace: str,
    inside: pulumi.Input[str],
    system: FileSystemArgs,
    labels: Mapping[str, str],
    opts: pulumi.ResourceOptions,
) -> None:
    """Create a volume for this namespace alone, and its claim, which has the file system's name.

    A volume is bound to one claim, so each namespace has its own. Kubernetes takes volumes with the same
    handle for one volume, and the driver mounts by DNS and mount name only (aws-fsx-csi-driver,
    pkg/driver/node.go): the handle has the namespace too. Deleting them leaves the file system and its files.
    """
    access = "rw" if system.write else "ro"
    mode = "ReadWriteMany" if system.write else "ReadOnlyMany"
    capacity = {"storage": f"{system.capacity_gib}Gi"}
    # The name has the access, which cannot change in a volume.
    volume = k8s.core.v1.PersistentVolume(
        f"{label}-{system.name}-{access}",
        metadata=k8s.meta.v1.ObjectMetaArgs(
            name=f"{namespace}-{system.name}-{access}", labels={**labels, "gpufleet.io/team": namespace}
        ),
        spec=k8s.core.v1.PersistentVolumeSpecArgs(
            capacity=capacity,
            access_modes=[mode],
            persistent_volume_reclaim_policy="Retain",
            storage_class_name="",
            volume_mode="Filesystem",
            mount_options=["flock"],
            claim_ref=k8s.core.v1.ObjectReferenceArgs(
                api_version="v1", kind="PersistentVolumeClaim", namespace=namespace, name=system.name
            ),
            csi=k8s.core.v1.CSIPersistentVolumeSourceArgs(
                driver=DRIVER,
                volume_handle=pulumi.Output.concat(system.file_system_id, ":", namespace),
                read_only=None if system.write else True,
                volume_attributes={"dnsname": system.dns_name, "mountname": system.mount_name},
            ),
        ),
        opts=opts,
    )
    k8s.core.v1.PersistentVolumeClaim(
        f"{label}-{system.name}",
        metadata=k8s.meta.v1.ObjectMetaArgs(
            name=system.name,
            namespace=inside,
            labels=labels,
            # The claim is bound once its volume exists; nothing has to use it first.
            annotations={"pulumi.com/skipAwait": "true"},
        ),
        spec=k8s.core.v1.PersistentVolumeClaimSpecArgs(
            access_modes=[mode],
            storage_class_name="",
            volume_name=volume.metadata.name,
            resources=k8s.core.v1.VolumeResourceRequirementsArgs(requests=capacity),
        ),
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(delete_before_replace=True)),
    )
