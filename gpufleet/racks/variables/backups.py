"""Variables of copies of backups: the store, and what each controller copies."""

from __future__ import annotations

from typing import Any

from gpufleet.plan.rack_models import BackupTargetPlan
from gpufleet.racks.variables.slurm import database_host
from gpufleet.racks.variables.variable import Context, Variable

SLURM_FOLDER = "/var/backups/gpufleet/slurm"
"""Default of the role slurm_database and of `gpufleet operate backup`."""
_PLACE = {"s3": "url", "nfs": "source", "rsync": "to"}


def _store(context: Context) -> dict[str, Any] | None:
    target = context.site.rack.backups
    if target is None:
        return None
    found = {
        "kind": target.kind,
        _PLACE[target.kind]: target.place,
        "endpoint": target.endpoint,
        "region": target.region,
        "port": target.port,
        "host_key": target.host_key,
    }
    return {name: value for name, value in found.items() if value is not None}


def _keep(context: Context) -> int | None:
    target: BackupTargetPlan | None = context.site.rack.backups
    return None if target is None else target.keep


def _sources(context: Context) -> list[dict[str, str]] | None:
    """Backups of the host. Each member has its own snapshots, so their copies have its name."""
    rack, host = context.site.rack, context.host
    if rack.backups is None or host.role != "controller":
        return None
    found = []
    if rack.kubernetes is not None and host.name in rack.kubernetes.members:
        remote = f"etcd-{context.site.site}-{host.name}"
        folder = rack.kubernetes.backup_folder
        found.append({"name": "etcd", "folder": folder, "local": "etcd", "remote": remote})
    if rack.slurm is not None and host.name == database_host(context, rack.slurm):
        name = f"slurm-{rack.slurm.cluster}"
        found.append({"name": "slurm", "folder": SLURM_FOLDER, "local": name, "remote": name})
    return found


BACKUP_VARIABLES = (
    Variable("backup_target", "store", "site", _store),
    Variable("backup_target", "keep", "site", _keep),
    Variable("backup_target", "sources", "host", _sources),
)
