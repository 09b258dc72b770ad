"""A volume for the pods of one namespace, made of existing storage, and the claim that is bound to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s


@dataclass(frozen=True, kw_only=True)
class TeamVolumeArgs:
    """A volume of a CSI driver. `name` is that of its claim.

    A volume is bound to one claim, so each namespace has its own. Kubernetes takes volumes with the same
    `handle` for one volume: each needs its own. `gib` is informative, and `attributes` are the driver's.
    Without `write`, it is mounted read-only. `source` ends the volume's name: it is what the volume shows, if
    that has a name.
    """

    name: str
    driver: str
    handle: pulumi.Input[str]
    attributes: Mapping[str, pulumi.Input[str]]
    mount_options: Sequence[str]
    gib: int
    write: bool
    source: pulumi.Input[str] | None = None


def team_volume(
    label: str,
    namespace: str,
    inside: pulumi.Input[str],
    volume: TeamVolumeArgs,
    labels: Mapping[str, str],
    opts: pulumi.ResourceOptions,
) -> None:
    """Create a volume for this namespace alone, and its claim. Deleting them leaves the storage as it is."""
    access = "rw" if volume.write else "ro"
    mode = "ReadWriteMany" if volume.write else "ReadOnlyMany"
    capacity = {"storage": f"{volume.gib}Gi"}
    # The name has what cannot change in a volume: another one gets a new claim too.
    own_name = f"{namespace}-{volume.name}-{access}"
    full_name = own_name if volume.source is None else pulumi.Output.concat(own_name, ".", volume.source)
    made = k8s.core.v1.PersistentVolume(
        f"{label}-{volume.name}-{access}",
        metadata=k8s.meta.v1.ObjectMetaArgs(name=full_name, labels={**labels, "gpufleet.io/team": namespace}),
        spec=k8s.core.v1.PersistentVolumeSpecArgs(
            capacity=capacity,
            access_modes=[mode],
            persistent_volume_reclaim_policy="Retain",
            storage_class_name="",
            volume_mode="Filesystem",
            mount_options=list(volume.mount_options),
            claim_ref=k8s.core.v1.ObjectReferenceArgs(
                api_version="v1", kind="PersistentVolumeClaim", namespace=namespace, name=volume.name
            ),
            csi=k8s.core.v1.CSIPersistentVolumeSourceArgs(
                driver=volume.driver,
                volume_handle=volume.handle,
                read_only=None if volume.write else True,
                volume_attributes=dict(volume.attributes),
            ),
        ),
        opts=opts,
    )
    k8s.core.v1.PersistentVolumeClaim(
        f"{label}-{volume.name}",
        metadata=k8s.meta.v1.ObjectMetaArgs(
            name=volume.name,
            namespace=inside,
            labels=labels,
            # The claim is bound once its volume exists; nothing has to use it first.
            annotations={"pulumi.com/skipAwait": "true"},
        ),
        spec=k8s.core.v1.PersistentVolumeClaimSpecArgs(
            access_modes=[mode],
            storage_class_name="",
            volume_name=made.metadata.name,
            resources=k8s.core.v1.VolumeResourceRequirementsArgs(requests=capacity),
        ),
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(delete_before_replace=True)),
    )
