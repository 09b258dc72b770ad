"""What the roles of a rack site install, derived from its declaration."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Literal

from gpufleet.plan.management import plan_management, plan_mig
from gpufleet.plan.rack_kubernetes import plan_kubernetes
from gpufleet.plan.rack_models import (
    BackupTargetPlan,
    FabricPartitionPlan,
    RackPlan,
    SubnetManagerPlan,
    UserPlan,
)
from gpufleet.plan.rack_monitoring import plan_monitoring
from gpufleet.plan.rack_slurm import plan_slurm
from gpufleet.spec.models import Fabric, OnPremSite, User
from gpufleet.spec.rack_backups import Backups
from gpufleet.spec.rack_fabric import GBPS

_TIERS = ("core", "spine", "leaf")


def plan_rack(site: OnPremSite, rails: tuple[str, ...] = ()) -> RackPlan:
    """The plan of a site's roles. Pure; the same site gives the same plan.

    `rails` are those of the site's system in the catalog, for a site that names none.
    """
    nvme, fabric = site.local_nvme, site.fabric
    return RackPlan(
        network=site.network,
        link_gbps=GBPS[fabric.speed],
        rails=fabric.rails or rails,
        interfaces=fabric.interfaces,
        ipoib=fabric.ipoib,
        subnet_managers=tuple(
            SubnetManagerPlan(item.host, item.priority, item.port_guid)
            for item in sorted(fabric.subnet_managers, key=lambda item: -item.priority)
        ),
        partitions=tuple(
            FabricPartitionPlan(item.name, item.pkey, item.port_guids, item.ipoib)
            for item in fabric.partitions
        ),
        root_guids=_roots(fabric),
        roce_priority=fabric.roce.priority,
        roce_dscp=fabric.roce.dscp,
        roce_mtu=fabric.roce.mtu,
        roce_ecn=fabric.roce.ecn,
        slurm=plan_slurm(site),
        kubernetes=plan_kubernetes(site),
        groups={group.name: group.gid for group in site.groups},
        people=plan_people(site.users),
        local_nvme=nvme.mount if nvme is not None else None,
        local_nvme_cache=nvme.cache if nvme is not None else None,
        local_nvme_drives=nvme.drives if nvme is not None else None,
        time_servers=site.time_servers,
        package_mirror=site.package_mirror,
        image_mirror=site.image_mirror,
        doca_repository=site.doca.repository,
        doca_key=site.doca.key,
        doca_key_fingerprint=site.doca.fingerprint,
        host_addresses=site.addresses,
        reboot_batch=_share(len(site.nodes.hosts), Decimal(site.reboot.batch.value)),
        reboot_timeout_s=math.ceil(site.reboot.timeout.delta.total_seconds()),
        fingerprints=site.ssh.fingerprints,
        monitoring_settings=plan_monitoring(site),
        management_settings=plan_management(site),
        mig=plan_mig(site),
        backups=plan_backup_target(site.backups),
    )


def plan_people(users: Iterable[User]) -> tuple[UserPlan, ...]:
    """The users of a site, with their numbers."""
    return tuple(
        UserPlan(
            name=user.name,
            uid=user.uid,
            gid=user.gid if user.gid is not None else user.uid,
            groups=user.groups,
            ssh_keys=user.ssh_keys,
            sudo=user.sudo,
        )
        for user in users
    )


def plan_backup_target(declared: Backups | None) -> BackupTargetPlan | None:
    """Where a site's backups are copied to; None if they stay on their hosts."""
    if declared is None:
        return None
    kind: Literal["s3", "nfs", "rsync"]
    endpoint = region = port = host_key = None
    if declared.s3 is not None:
        kind, place, endpoint, region = "s3", declared.s3.url, declared.s3.endpoint, declared.s3.region
    elif declared.rsync is not None:
        kind, place, port, host_key = "rsync", declared.rsync.to, declared.rsync.port, declared.rsync.host_key
    else:
        kind, place = "nfs", declared.chosen().source
    return BackupTargetPlan(kind, place, endpoint, region, port, host_key, declared.keep)


def _share(hosts: int, percent: Decimal) -> int:
    """Return a percentage of hosts, at least one and at most all."""
    return min(hosts, max(1, int(hosts * percent / 100)))


def _roots(fabric: Fabric) -> tuple[str, ...]:
    """Return the roots of the fat tree, empty with only leaves: opensm then finds them."""
    for tier in _TIERS[:2]:
        guids = tuple(item.guid for item in fabric.switches if item.tier == tier and item.guid is not None)
        if guids:
            return guids
    return ()
