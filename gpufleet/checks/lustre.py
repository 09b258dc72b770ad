"""FSx for Lustre: valid combinations of size, throughput and options."""

from __future__ import annotations

import datetime as dt
from bisect import bisect
from collections.abc import Iterator

from gpufleet.catalog import Catalog
from gpufleet.catalog.lustre import included_metadata_iops, is_size, nearest_sizes, size_steps
from gpufleet.checks.rules import FieldFinding, Fleet, check, listed
from gpufleet.kinds import LUSTRE_DEPLOYMENTS, METADATA_IOPS
from gpufleet.plan.capacity import group_zones
from gpufleet.plan.storage import lustre_interfaces, lustre_zone
from gpufleet.spec.models import Lustre

LONGEST_BACKUP = dt.timedelta(days=90)


@check("lustre-throughput")
def lustre_throughput(fleet: Fleet) -> Iterator[FieldFinding]:
    """A persistent file system has one of a few throughputs per TiB. That of a scratch file system is fixed
    (FSx for Lustre User Guide, "Performance")."""
    for path, _, item, lustre in fleet.lustre():
        allowed = fleet.catalog.lustre_throughputs(LUSTRE_DEPLOYMENTS[lustre.deployment])
        choice = listed([f"{value} MB/s/TiB" for value in allowed])
        where = (*path, "throughput")
        if not allowed:
            if lustre.throughput is not None:
                yield FieldFinding(
                    where,
                    f"{lustre.deployment} has a fixed throughput",
                    "remove `throughput`, or use 'deployment: persistent-2'",
                )
        elif lustre.throughput is None:
            yield FieldFinding(
                where,
                f"file system {item.name!r} is {lustre.deployment} but has no `throughput`",
                f"write 'throughput: {allowed[0]} MB/s/TiB' (one of {choice})",
                value=lustre.deployment,
            )
        elif lustre.throughput.mb_s_per_tib not in allowed:
            wanted = lustre.throughput.mb_s_per_tib
            near = min(allowed, key=lambda value: (abs(value - wanted), value))
            yield FieldFinding(
                where,
                f"{lustre.deployment} does not offer a throughput of {lustre.throughput}",
                f"write '{near} MB/s/TiB' (one of {choice})",
            )


@check("lustre-capacity")
def lustre_capacity(fleet: Fleet) -> Iterator[FieldFinding]:
    """File systems have 1,200 GiB or a multiple of 2,400 GiB. For EFA-enabled ones the multiple depends on
    the throughput: 125 x 38,400 = 250 x 19,200 = 500 x 9,600 = 1000 x 4,800 (FSx for Lustre User Guide,
    "Managing storage capacity")."""
    for path, _, _, lustre in fleet.lustre():
        steps = _steps(lustre, fleet.catalog)
        if steps is None:
            continue
        first, multiple = steps
        gib = int(lustre.capacity.gib)
        if is_size(gib, steps):
            continue
        below, above = nearest_sizes(gib, steps)
        kind = "an EFA-enabled file system" if lustre.efa else "a file system"
        at = f" at {lustre.throughput}" if lustre.efa else ""
        rule = f"a multiple of {multiple:,} GiB" + (f", or {first:,} GiB" if first != multiple else "")
        yield FieldFinding(
            (*path, "capacity"),
            f"{gib:,} GiB is not a size of {kind}{at}: {rule}",
            "write " + " or ".join(f"'{size} GiB'" for size in (below, above) if size is not None),
        )


def _steps(lustre: Lustre, catalog: Catalog) -> tuple[int, int] | None:
    """Return the first size and the multiple of a file system, None if it breaks another rule."""
    throughput = lustre.throughput.mb_s_per_tib if lustre.throughput is not None else None
    return size_steps(catalog, LUSTRE_DEPLOYMENTS[lustre.deployment], throughput, efa=lustre.efa)


@check("lustre-efa")
def lustre_efa(fleet: Fleet) -> Iterator[FieldFinding]:
    """EFA needs PERSISTENT_2 and cannot change after creation (FSx for Lustre User Guide, "EFA-enabled file
    systems")."""
    for path, _, _, lustre in fleet.lustre():
        if lustre.efa and lustre.deployment != "persistent-2":
            yield FieldFinding(
                (*path, "efa"),
                f"{lustre.deployment} does not support EFA",
                "write 'efa: false', or use `persistent-2` with a throughput",
            )


@check("lustre-metadata-iops")
def lustre_metadata(fleet: Fleet) -> Iterator[FieldFinding]:
    """Metadata IOPS can be provisioned on PERSISTENT_2 only, as 1500, 3000, 6000 or a multiple of 12000
    up to 192000 (FSx API Reference, FileSystemLustreMetadataConfiguration). Those that the capacity includes
    cost nothing (FSx for Lustre User Guide, "File system metadata performance")."""
    for path, _, _, lustre in fleet.lustre():
        wanted = lustre.metadata_iops
        if wanted is None:
            continue
        where = (*path, "metadata_iops")
        free = min(included_metadata_iops(int(lustre.capacity.gib)), METADATA_IOPS[-1])
        if lustre.deployment != "persistent-2":
            yield FieldFinding(
                where,
                f"{lustre.deployment} does not support metadata IOPS",
                "remove it, or use `persistent-2` with a throughput",
            )
        elif wanted not in METADATA_IOPS:
            above = bisect(METADATA_IOPS, wanted)
            near = [value for value in METADATA_IOPS[above - 1 : above + 1] if value >= free] or [free]
            yield FieldFinding(
                where,
                f"{wanted} metadata IOPS cannot be provisioned (1500, 3000, 6000, or a multiple of 12000)",
                "write " + " or ".join(f"'{value}'" for value in near),
            )
        elif wanted < free:
            yield FieldFinding(
                where,
                f"{wanted} metadata IOPS are fewer than the {free} that {lustre.capacity} include",
                f"write '{free}'",
                "warning",
            )


@check("lustre-options")
def lustre_options(fleet: Fleet) -> Iterator[FieldFinding]:
    """A file system exports only to the bucket it imports from. Scratch and bucket-linked file systems have
    no backups. Backups are kept for 1 to 90 whole days (FSx API Reference, AutomaticBackupRetentionDays)."""
    for path, _, item, lustre in fleet.lustre():
        if lustre.export and lustre.import_from is None:
            yield FieldFinding(
                (*path, "export"),
                f"file system {item.name!r} has `export: true` but no `import_from` to export to",
                "write 'import_from: s3://<bucket>/<prefix>', or 'export: false'",
            )
        if lustre.backups is None:
            continue
        where = (*path, "backups")
        if lustre.deployment == "scratch-2":
            yield FieldFinding(where, "a scratch file system has no backups", "remove `backups`")
        elif lustre.import_from is not None:
            yield FieldFinding(
                where,
                "a file system that is linked to a bucket has no backups: the bucket holds its files",
                "remove `backups` and export to the bucket (`export: true`), or remove `import_from`",
            )
        elif lustre.backups.delta > LONGEST_BACKUP or lustre.backups.delta % dt.timedelta(days=1):
            yield FieldFinding(
                where,
                f"backups are kept for whole days up to {LONGEST_BACKUP.days}, not '{lustre.backups}'",
                f"write '{max(1, min(LONGEST_BACKUP.days, lustre.backups.delta.days))} d'",
            )


@check("lustre-efa-zone")
def lustre_efa_zone(fleet: Fleet) -> Iterator[FieldFinding]:
    """EFA does not cross zones. Nodes in other zones use TCP, and AWS charges for traffic between zones."""
    for path, site, item, lustre in fleet.lustre():
        if not lustre.efa:
            continue
        zone = lustre_zone(lustre, site)
        groups = [each for each in site.node_groups if each.network == "efa"]
        away = {each.name: zones for each in groups if zone not in (zones := each.zones or site.zones)}
        if away:
            yield FieldFinding(
                (*path, "zone"),
                f"file system {item.name!r} has EFA in {zone}, but {listed(list(away))} cannot run there",
                f"use one zone for all, such as 'zone: {next(iter(away.values()))[0]}'",
                "warning",
                zone,
            )


@check("lustre-efa-connections")
def lustre_efa_connections(fleet: Fleet) -> Iterator[FieldFinding]:
    """A file system takes 1,024 EFA connections, one for each EFA interface of a client (FSx for Lustre User
    Guide, "Configuring EFA clients"). Nodes beyond them do not reach it over EFA."""
    clients = fleet.catalog.lustre_efa_clients
    for path, site, item, lustre in fleet.lustre():
        if not lustre.efa:
            continue
        zone = (lustre_zone(lustre, site),)
        most = {
            group.name: (group.capacity.most_nodes, interfaces)
            for group in site.node_groups
            if group_zones(group, site) == zone
            and (interfaces := lustre_interfaces(site, group, fleet.types(group), clients))
        }
        needed = sum(nodes * interfaces for nodes, interfaces in most.values())
        if needed > clients.connections:
            groups = listed([f"{name} {nodes} nodes of {each}" for name, (nodes, each) in most.items()])
            yield FieldFinding(
                (*path, "efa"),
                f"file system {item.name!r} takes {clients.connections:,} EFA connections, and its"
                f" nodes have up to {needed:,}: {groups}",
                "launch fewer nodes, or give other groups a file system in another site",
                "warning",
                f"{needed:,} connections",
            )


CHECKS = (
    lustre_throughput,
    lustre_capacity,
    lustre_efa,
    lustre_metadata,
    lustre_options,
    lustre_efa_zone,
    lustre_efa_connections,
)
