"""Shared storage of a cloud site as the stack builds it."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.catalog import InstanceType
from gpufleet.catalog.storage_models import LustreEfaClients
from gpufleet.kinds import LUSTRE_DEPLOYMENTS
from gpufleet.plan.capacity import group_zones
from gpufleet.plan.marks import storage_tags
from gpufleet.plan.models import BucketPlan, LustrePlan
from gpufleet.spec.models import Bucket, CloudSite, FleetSpec, Lustre, NodeGroup, Storage


def default_mount(name: str) -> str:
    """Where nodes see a file system whose `mount` is not written."""
    return f"/mnt/{name}"


def lustre_zone(lustre: Lustre, site: CloudSite) -> str:
    """The zone of a file system: its own, or the first of the site."""
    return lustre.zone or site.zones[0]


def lustre_interfaces(
    site: CloudSite, group: NodeGroup, types: Sequence[InstanceType], clients: LustreEfaClients
) -> int:
    """Return the EFA interfaces by which a node of a group reaches the site's file systems; 0 for TCP alone.

    EFA does not leave a zone: nodes that may be in another one than an EFA-enabled file system use TCP.
    """
    near = any(
        item.lustre is not None
        and item.lustre.efa
        and group_zones(group, site) == (lustre_zone(item.lustre, site),)
        for item in site.storage
    )
    if not near or group.network != "efa" or not types:
        return 0
    return min(clients.interfaces_of(each) for each in types)


def split_s3(url: str) -> tuple[str, str]:
    """Bucket and prefix of `s3://bucket/prefix`; the prefix is without slashes at its ends."""
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    return bucket, prefix.strip("/")


def plan_lustre(spec: FleetSpec, site: CloudSite, storage: Storage, lustre: Lustre) -> LustrePlan:
    """An FSx for Lustre file system of the site."""
    bucket, prefix = split_s3(lustre.import_from) if lustre.import_from is not None else (None, "")
    return LustrePlan(
        site=site.site,
        name=storage.name,
        deployment=LUSTRE_DEPLOYMENTS[lustre.deployment],
        capacity_gib=int(lustre.capacity.gib),
        throughput=lustre.throughput.mb_s_per_tib if lustre.throughput is not None else None,
        efa=lustre.efa,
        metadata_iops=lustre.metadata_iops,
        compression="LZ4" if lustre.compression == "lz4" else "NONE",
        backup_days=lustre.backups.delta.days if lustre.backups is not None else 0,
        zone=lustre_zone(lustre, site),
        mount=storage.mount or default_mount(storage.name),
        tags=storage_tags(spec, site.site, storage.name),
        import_bucket=bucket,
        import_prefix=prefix,
        export=lustre.export,
        kms_key=lustre.kms_key,
    )


def plan_bucket(spec: FleetSpec, site: CloudSite, storage: Storage, bucket: Bucket) -> BucketPlan:
    """A bucket of the site."""
    return BucketPlan(
        site=site.site,
        name=storage.name,
        bucket=bucket.name,
        versioning=bucket.versioning,
        expire_days=bucket.expire_after.delta.days if bucket.expire_after is not None else None,
        tags=storage_tags(spec, site.site, storage.name),
        kms_key=bucket.kms_key,
    )
