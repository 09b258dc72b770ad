"""An FSx for Lustre file system as a volume for the pods of a namespace."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from gpufleet.components.team_volume import TeamVolumeArgs

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


def file_system_volume(namespace: str, system: FileSystemArgs) -> TeamVolumeArgs:
    """Return the volume of a file system for this namespace.

    The driver mounts by DNS and mount name only (aws-fsx-csi-driver, pkg/driver/node.go), so the handle can
    have the namespace too.
    """
    return TeamVolumeArgs(
        name=system.name,
        driver=DRIVER,
        handle=pulumi.Output.concat(system.file_system_id, ":", namespace),
        attributes={"dnsname": system.dns_name, "mountname": system.mount_name},
        mount_options=["flock"],
        gib=system.capacity_gib,
        write=system.write,
    )
