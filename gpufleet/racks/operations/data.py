"""Operations on what a site must not lose: backups, restores, upgrades of schedulers; and support bundles."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpufleet.racks.operations.operation import Operation, Option, Value
from gpufleet.racks.variables.backups import SLURM_FOLDER

_REMOTE = "remote:"

_CONVERT = Option(
    "convert",
    "int",
    "seconds that slurmdbd may take to convert its database; a large one takes tens of minutes",
    default=3600,
    least=10,
    most=24 * 3600,
)
_FOLDER = Option(
    "folder",
    "str",
    "where the host of the database keeps backups",
    default=SLURM_FOLDER,
    pattern=r"/[\w./-]+",
)
_RESERVE = Option("reserve_mib", "int", "MiB that a backup leaves free on that disk", default=256)


def _to(options: Mapping[str, Value]) -> dict[str, Value]:
    """The folder as it is meant where the command was given first."""
    return {"to": "none" if options["to"] == "none" else str(Path(str(options["to"])).absolute())}


def _copy_folder(options: Mapping[str, Value]) -> dict[str, Any]:
    """The folder of the copy; empty for none."""
    return {"operation_to": "" if options["to"] == "none" else options["to"]}


def _backup(options: Mapping[str, Value]) -> dict[str, Value]:
    """The backup's folder on this machine as it is meant where the command was given first."""
    path = Path(str(options["backup"]))
    return {"backup": str(path.absolute())} if path.is_dir() else {}


def _kubernetes(options: Mapping[str, Value]) -> dict[str, Any]:
    """How long pods may take to leave, for members and for nodes."""
    roles = ("kubernetes_control_plane", "kubernetes_node")
    return {f"{role}_drain_timeout_s": options["drain"] for role in roles if "drain" in options}


def _here(options: Mapping[str, Value]) -> dict[str, Any]:
    """Return whether the backup is on this machine, and its name if it is on the remote target.

    Otherwise it is a folder of the host that created it.
    """
    backup = str(options["backup"])
    remote = backup.removeprefix(_REMOTE) if backup.startswith(_REMOTE) else ""
    return {"operation_here": not remote and Path(backup).is_dir(), "operation_remote": remote}


def _restore_secrets(options: Mapping[str, Value]) -> tuple[str, ...]:
    """Return the role whose secrets fetch a backup; a restore of another needs none."""
    return ("backup_target",) if str(options["backup"]).startswith(_REMOTE) else ()


def _output(options: Mapping[str, Value]) -> dict[str, Value]:
    """The bundle's path as it is meant where and when the command was given first."""
    stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%SZ")
    return {"output": str(Path(str(options.get("output", f"support-{stamp}.tar.gz"))).absolute())}


DATA_OPERATIONS = (
    Operation(
        name="backup",
        playbook="playbooks/backup.yml",
        summary="back up accounting, the state of the controllers, and etcd; nothing is stopped",
        group="rack_controllers",
        options=(
            Option("to", "str", "local folder for the copy, or none", default=".gpufleet/backups"),
            _FOLDER,
            Option("keep", "int", "backups that the host keeps", default=7, least=1, most=1000),
            _RESERVE,
        ),
        settle=_to,
        variables=_copy_folder,
    ),
    Operation(
        name="restore",
        playbook="playbooks/restore.yml",
        summary="restore a backup on the controllers of one site: accounting and queue, or etcd",
        group="rack_controllers",
        options=(
            Option(
                "backup",
                "str",
                "folder of the backup (slurm-... or etcd-...) on this machine, else on the database's host or"
                " a member; remote:NAME for a copy on the remote target",
                required=True,
            ),
            Option(
                "discard_newer", "bool", "give up what is newer than the backup: jobs, objects", default=False
            ),
            _CONVERT,
        ),
        asks="stop Slurm or Kubernetes' control plane, and replace its data, on the",
        marks=True,
        together="rack_controllers",
        secrets_for=_restore_secrets,
        settle=_backup,
        variables=_here,
    ),
    Operation(
        name="upgrade_slurm",
        playbook="playbooks/upgrade_slurm.yml",
        summary="upgrade Slurm to a version: accounting, controllers, nodes in batches, login hosts",
        group="rack_slurm",
        options=(
            Option(
                "version",
                "str",
                "the version, with all three numbers; default: that of the software channel",
                pattern=r"\d{2}\.\d{2}\.\d+",
            ),
            Option("batch", "batch", "nodes at once, or percent of them", default="25%"),
            _CONVERT,
            _FOLDER,
            _RESERVE,
        ),
        asks="stop the controllers and upgrade Slurm of",
        marks=True,
        together="rack_slurm_controllers",
    ),
    Operation(
        name="upgrade_kubernetes",
        playbook="playbooks/upgrade_kubernetes.yml",
        summary="upgrade Kubernetes to the fleet file's minor: members one at a time, then nodes in batches",
        group="rack_kubernetes",
        options=(
            Option("batch", "batch", "nodes at once, or percent of them", default="25%"),
            Option(
                "drain",
                "int",
                "seconds that pods may take to leave a host; default: 20 minutes",
                least=10,
                most=24 * 3600,
            ),
        ),
        asks="drain and upgrade Kubernetes of",
        marks=True,
        variables=_kubernetes,
    ),
    Operation(
        name="rotate_encryption_key",
        playbook="playbooks/rotate_encryption_key.yml",
        summary="replace the key that encrypts Kubernetes secrets by that of `gpufleet secrets new --rotate`",
        group="rack_kubernetes_control_plane",
        asks="restart the API servers, three times and one at a time, and rewrite all secrets of",
        secrets_of=("kubernetes_control_plane",),
        marks=True,
        together="rack_kubernetes_control_plane",
    ),
    Operation(
        name="collect",
        playbook="playbooks/collect.yml",
        summary="one support bundle of all hosts: logs, versions, configuration; secrets are removed",
        group="rack_hosts",
        options=(
            Option("output", "str", "the bundle to write; default: support-<time>.tar.gz here"),
            Option("since", "int", "hours of logs", default=24, least=1, most=24 * 90),
            Option(
                "limit_mib", "int", "MiB of texts of a host, before compression", default=24, least=1, most=60
            ),
        ),
        marks=True,
        reads=True,
        settle=_output,
    ),
)
