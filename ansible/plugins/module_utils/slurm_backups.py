"""Backups of a cluster in a folder: complete or absent, private to root, and limited in number.

The module `gpufleet.rack.slurm_backup` makes them within Ansible, and the program `slurm-backup` by the
timer of the host. Standard library only.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from ansible_collections.gpufleet.rack.plugins.module_utils.mariadb import MariaDb
from ansible_collections.gpufleet.rack.plugins.module_utils.refusal import RefusalError
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_copies import (
    copy_configuration,
    copy_state,
    dump,
    listing,
    raise_for_space,
    sizes,
)
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_files import (
    CONFIG,
    DATABASE,
    MANIFEST,
    STATE,
    SlurmCluster,
    digest,
    exclusive_lock,
    free,
    mib,
)
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_versions import installed, version_here

FORMAT = 1
# Textfile folder of the node exporter, if installed; an alert checks the age of backups.
TEXTFILES = Path("/var/lib/prometheus/node-exporter")
METRIC = "gpufleet_backup_last_success_timestamp_seconds"
NAME = re.compile(r"slurm-.+-\d{8}T\d{6}Z")
PARTIAL = ".new-"


class BackupRequest(NamedTuple):
    """Source and target of a backup; sizes in MiB, times in seconds."""

    cluster: str
    folder: str = "/var/backups/gpufleet/slurm"
    keep: int = 7
    reserve_mib: int = 256
    quiet_s: int = 60
    timeout_s: int = 7200


def ask(*words: str) -> str | None:
    """The output of a Slurm command; None if it fails or hangs."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    # `scontrol ping` fails if one of several controllers is down, and names it.
    return done.stdout if done.returncode == 0 or words[1] == "ping" else None


def queue() -> list[dict[str, str]] | None:
    """ID, state and user of slurmctld's jobs; None if it does not answer."""
    # Without a responding controller, squeue would retry for half a minute.
    if " is UP" not in (ask("scontrol", "ping") or ""):
        return None
    output = ask("squeue", "-h", "-a", "-o", "%A|%T|%u")
    if output is None:
        return None
    rows = [line.split("|") for line in output.splitlines() if line.count("|") == 2]
    return [{"job": job, "state": state, "user": user} for job, state, user in sorted(rows)]


def sync(path: Path) -> None:
    """Sync the contents before the rename."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def room(folder: Path, needed: int, reserve: int) -> None:
    """Refuse a backup that may not fit, before anything is written."""
    # The first backup creates the folder.
    there = free(next(path for path in (folder, *folder.parents) if path.is_dir()))
    if there < needed + reserve:
        kept = backups(folder)
        last = f"The last backup, {kept[-1].name}, is untouched." if kept else "There is no earlier backup."
        raise RefusalError(
            f"{folder} has {mib(there)} free; the backup may take {mib(needed)}, and {mib(reserve)} have "
            f"to be left. "
            f"Make room, or name another folder. {last}"
        )


def backups(folder: Path) -> list[Path]:
    """Complete backups, oldest first."""
    found = [
        path for path in folder.glob("slurm-*") if NAME.fullmatch(path.name) and (path / MANIFEST).is_file()
    ]
    return sorted(found, key=lambda path: path.name.rsplit("-", 1)[1])


def described(folder: Path) -> list[dict[str, object]]:
    """Details of each backup of a folder, oldest first."""
    found = []
    for path in backups(folder):
        about = json.loads((path / MANIFEST).read_text())
        size = sum(each.stat().st_size for each in path.iterdir())
        found.append(
            {"name": path.name, "created": about["created"], "bytes": size, "jobs": about["jobs"]["count"]}
        )
    return found


def make(cluster: SlurmCluster, server: MariaDb, target: Path, wanted: BackupRequest) -> dict[str, object]:
    """Write all files of a backup into a folder; the manifest."""
    before = queue()
    copies = copy_state(cluster.state, target / STATE, wanted.quiet_s)
    jobs = server.jobs(cluster.database, cluster.jobs)
    plain = dump(server, cluster.database, target / DATABASE, wanted.timeout_s)
    copy_configuration(target / CONFIG)
    return {
        "format": FORMAT,
        "cluster": cluster.name,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "host": os.uname().nodename,
        "versions": {
            "slurm": str(version_here(installed())),
            "mariadb": server.ask("SELECT VERSION();")[0][0],
        },
        "database": {
            "name": cluster.database,
            "bytes": plain,
            "tables": len(server.tables(cluster.database)),
        },
        "jobs": jobs,
        "queue": before,
        "copies": copies,
        "files": {
            name: {"sha256": digest(target / name), "size": (target / name).stat().st_size}
            for name in (STATE, DATABASE, CONFIG)
        },
    }


def note_success() -> None:
    """Export the time of the last backup to Prometheus, if it monitors this host."""
    if not TEXTFILES.is_dir():
        return
    partial = TEXTFILES / "gpufleet_backup_slurm.prom.new"
    partial.write_text(f'# TYPE {METRIC} gauge\n{METRIC}{{backup="slurm"}} {time.time():.0f}\n')
    partial.chmod(0o644)
    partial.rename(partial.with_suffix(""))


def back_up(wanted: BackupRequest, check: bool = False) -> dict[str, object]:
    """Make a backup, or check the free space; the result for Ansible."""
    cluster = SlurmCluster(wanted.cluster)
    server = MariaDb()
    folder = Path(wanted.folder)
    needed = server.size(cluster.database) + sizes(listing(cluster.state))
    if check:
        room(folder, needed, wanted.reserve_mib << 20)
        return {"changed": True, "path": "", "files": [], "size": 0, "removed": []}
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    with exclusive_lock(folder):
        for path in folder.glob(f"{PARTIAL}*"):  # left by a killed run
            shutil.rmtree(path)
        room(folder, needed, wanted.reserve_mib << 20)
        name = f"slurm-{cluster.name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
        partial = folder / f"{PARTIAL}{name}"
        try:
            partial.mkdir(mode=0o700)
            manifest = make(cluster, server, partial, wanted)
            (partial / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
            for path in partial.iterdir():
                path.chmod(0o600)
                sync(path)
            sync(partial)
            partial.rename(folder / name)
            sync(folder)
        except OSError as error:
            raise_for_space(partial, str(error))
            raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        old = [path for path in backups(folder) if path.name.startswith(f"slurm-{cluster.name}-")]
        removed = old[: max(0, len(old) - max(1, wanted.keep))]
        for path in removed:
            shutil.rmtree(path)
    note_success()
    made = folder / name
    files = sorted(path.name for path in made.iterdir())
    return {
        "changed": True,
        "path": str(made),
        "files": files,
        "size": sum((made / each).stat().st_size for each in files),
        "removed": [path.name for path in removed],
    }
