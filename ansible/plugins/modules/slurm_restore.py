#!/usr/bin/python
"""Restore accounting and state from a backup on a controller, and keep the previous data."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_restore
short_description: Restores the accounting database and slurmctld's state from a backup
description:
  - Refuses a backup of another cluster, of a newer or too old Slurm, with
    modified
    files, and one that is older than jobs of the database unless permitted.
  - Loads the database next to the current one and exchanges them when it is complete. The previous one
    stays, as the
    previous state does.
  - In check mode it only checks. Otherwise slurmctld and slurmdbd must be stopped on the host.
  - The same I(operation) continues a killed restore; another one starts from the beginning.
    A completed restore is not repeated by the same operation, since jobs may run already.
    slurmctld does not start on an incomplete state.
options:
  cluster:
    description: Name of the cluster, which must match the backup and the host's configuration.
    type: str
    required: true
  path:
    description: Folder of the backup on this host.
    type: path
    required: true
  upgrades:
    description: For each Slurm release the releases it can upgrade from, as in gpufleet's catalog.
    type: dict
    required: true
  operation:
    description: ID of the operation, the same when it is resumed.
    type: str
    default: ""
  discard_newer:
    description: Whether to discard jobs that are in the database and not in the backup.
    type: bool
    default: false
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Check the backup
  gpufleet.rack.slurm_restore:
    cluster: dc1
    path: /var/backups/gpufleet/slurm/slurm-dc1-20260101T000000Z
    upgrades: {"25.05": ["24.11", "24.05", "23.11"]}
  check_mode: true
"""

RETURN = r"""
manifest:
  description: Manifest of the backup.
  type: dict
  returned: success
jobs:
  description: IDs of the jobs that were queued when the backup was made.
  type: list
  returned: success
kept:
  description: Paths of the previous database and state; empty in check mode.
  type: list
  returned: success
"""

import gzip
import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.mariadb import MariaDb
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_files import (
    DATABASE,
    MANIFEST,
    STATE,
    SlurmCluster,
    as_slurm,
    digest,
    exclusive_lock,
    free,
    mib,
)
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_versions import (
    installed,
    judge,
    version_here,
    wanted,
)

FORMAT = 1
DATA = Path("/var/lib/mysql")
RESERVE = 256 << 20
# Progress of an operation, next to the backup: where the previous state is, and whether it is complete.
PROGRESS = ".restore.json"
# Inside the state folder, since only that belongs to slurm. slurm-state refuses to start with
# .restoring. With .restoring/.kept all previous state is moved: the rest is new.
EXCHANGE = """\
set -eu
cd "$1"
if [ "$(cat .restoring/.kept 2>/dev/null)" != "$2" ]; then
    rm -rf .restoring
    mkdir -m 0700 .restoring
    tar --extract --gzip -C .restoring
    mkdir -p -m 0700 "$2"
    for entry in * .[!.]*; do
        case $entry in .restoring | .before-restore-* | '*' | '.[!.]*') continue ;; esac
        mv -- "$entry" "$2/"
    done
    echo "$2" >.restoring/kept
    mv .restoring/kept .restoring/.kept
fi
for entry in .restoring/* .restoring/.[!.]*; do
    [ "$entry" = .restoring/.kept ] || [ ! -e "$entry" ] || mv -- "$entry" .
done
rm -r .restoring
"""


class Progress:
    """Progress of an operation's restore; none without a name."""

    def __init__(self, backup: Path, operation: str) -> None:
        self._file = backup.parent / PROGRESS
        self._named = {"operation": operation, "backup": backup.name}
        self.stamp, self.done = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), False
        try:
            found = json.loads(self._file.read_text())
            if operation and found["named"] == self._named:
                self.stamp, self.done = str(found["stamp"]), bool(found["done"])
        except (OSError, ValueError, KeyError, TypeError):
            pass

    def note(self, *, done: bool) -> None:
        """Write it atomically."""
        self.done = done
        partial = self._file.with_name(f"{PROGRESS}.new")
        about = {"named": self._named, "stamp": self.stamp, "done": done}
        partial.write_text(json.dumps(about) + "\n")
        partial.rename(self._file)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a backup, after all files were compared with it."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
        files = {str(name): str(about["sha256"]) for name, about in manifest["files"].items()}
        kind = int(manifest["format"])
        slurm = str(manifest["versions"]["slurm"])
        for name in ("count", "submitted", "changed"):
            int(manifest["jobs"][name])
        int(manifest["database"]["bytes"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise RefusalError(
            f"{folder} is no backup: it has no {MANIFEST} that can be read. Name the folder of one, as "
            f"`slurm-...`."
        ) from None
    if kind != FORMAT or not slurm:
        raise RefusalError(
            f"{folder} is a backup of form {kind}; this gpufleet reads form {FORMAT}. Use a newer one."
        )
    for name in (STATE, DATABASE):
        path = folder / name
        if not path.is_file() or files.get(name) != digest(path):
            raise RefusalError(
                f"{path} is not the file that was backed up: it is missing or its sha256 is another. Use "
                f"another backup."
            )
    return manifest


def compare(
    manifest: dict[str, Any],
    cluster: SlurmCluster,
    server: MariaDb,
    upgrades: dict[str, list[str]],
    discard: bool,
) -> None:
    """Refuse a backup of another cluster, or one that would lose newer data."""
    if manifest["cluster"] != cluster.name:
        raise RefusalError(
            f"The backup is of cluster {manifest['cluster']!r}, and this is {cluster.name!r}. Restore it "
            f"there."
        )
    saved, here = wanted(manifest["versions"]["slurm"]), version_here(installed())
    if saved > here and saved.release != here.release:
        raise RefusalError(
            f"The backup is of Slurm {saved}, and {here} is installed, which does not know its form. "
            f"Upgrade first "
            "(`gpufleet operate <env> upgrade_slurm`), or use an older backup."
        )
    if saved.release != here.release:
        judge(saved, here, upgrades, "The backup's Slurm")
    jobs = server.jobs(cluster.database, cluster.jobs)
    newer = [name for name in ("submitted", "changed") if jobs[name] > int(manifest["jobs"][name])]
    if newer and not discard:
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(max(jobs[name] for name in newer)))
        raise RefusalError(
            f"The database has records of jobs up to {when}, newer than the backup of "
            f"{manifest['created']}; they would "
            "be gone. Back it up first; then restore with the option discard_newer=true."
        )


def require_stopped() -> None:
    """Refuse while a daemon writes to the data."""
    for unit in ("slurmctld.service", "slurmdbd.service"):
        done = subprocess.run(
            ["systemctl", "is-active", unit], capture_output=True, text=True, check=False, timeout=60
        )
        if done.stdout.strip() in ("active", "activating", "deactivating", "reloading"):
            raise RefusalError(f"{unit} runs on this host. Stop it on all controllers, then restore.")


def load(server: MariaDb, path: Path, database: str, needed: int) -> None:
    """Load a dump into a new database; that of an earlier, killed run is dropped."""
    if DATA.is_dir() and free(DATA) < needed + RESERVE:
        raise RefusalError(
            f"{DATA} has {mib(free(DATA))} free, and the database takes {mib(needed)} beside the one that "
            f"is there. "
            "Make room and run again; nothing was changed."
        )
    server.ask(f"DROP DATABASE IF EXISTS `{database}`; CREATE DATABASE `{database}`;")
    process = subprocess.Popen(
        [server.client, *server.LOGIN, database],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        with gzip.open(path, "rb") as dump:
            shutil.copyfileobj(dump, process.stdin, 1 << 20)
        process.stdin.close()
    except BrokenPipeError:
        pass  # it reports its own error
    error = process.stderr.read().decode(errors="replace").strip()
    process.stderr.close()
    if process.wait(timeout=600):
        raise RefusalError(
            f"MariaDB did not take the backup: {error[-400:]}. The database that is there is untouched."
        )


def exchange_databases(server: MariaDb, new: str, current: str, former: str) -> None:
    """Exchange the tables of two databases in one statement; the previous ones are kept."""
    server.ask(f"CREATE DATABASE IF NOT EXISTS `{former}`;")
    moves = [f"`{current}`.`{table}` TO `{former}`.`{table}`" for table in server.tables(current)]
    moves += [f"`{new}`.`{table}` TO `{current}`.`{table}`" for table in server.tables(new)]
    server.ask(
        f"CREATE DATABASE IF NOT EXISTS `{current}`; RENAME TABLE {', '.join(moves)}; DROP DATABASE `{new}`;"
    )


def exchange_state(cluster: SlurmCluster, path: Path, former: str, lock: int) -> None:
    """Replace the state with that of a backup; the previous one is kept below it."""
    with path.open("rb") as archive:
        done = subprocess.run(
            as_slurm("sh", "-c", EXCHANGE, "sh", str(cluster.state), former),
            stdin=archive,
            capture_output=True,
            check=False,
            timeout=1800,
            cwd="/",
            pass_fds=(lock,),
        )
    if done.returncode:
        error = done.stderr.decode(errors="replace").strip()[-300:]
        raise RefusalError(
            f"The state in {cluster.state} could not be exchanged: {error}. slurmctld does not start until "
            f"a restore "
            "comes to its end: repair the cause and run it again."
        )


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Check, and restore; the result for Ansible."""
    folder = Path(params["path"])
    cluster = SlurmCluster(params["cluster"])
    server = MariaDb()
    manifest = read_manifest(folder)
    upgrades = {str(key): [str(each) for each in value] for key, value in params["upgrades"].items()}
    jobs = sorted({int(each["job"]) for each in manifest["queue"] or []})
    # Also in check mode: nothing stops while the restore of a killed run still runs here.
    with exclusive_lock(folder.parent) as lock:
        progress = Progress(folder, params["operation"])
        former = f"{cluster.database}_before_{progress.stamp.lower()}"
        kept = f".before-restore-{progress.stamp}"
        result = {"changed": not progress.done, "manifest": manifest, "jobs": jobs, "kept": []}
        if not progress.done:
            compare(manifest, cluster, server, upgrades, params["discard_newer"])
        if check:
            return result
        if not progress.done:
            require_stopped()
            progress.note(done=False)
            # The statement that exchanges the tables also records the name.
            if not server.tables(former):
                load_database(server, cluster, folder, manifest, former)
            exchange_state(cluster, folder / STATE, kept, lock)
            progress.note(done=True)
    result["kept"] = [f"database {former}", str(cluster.state / kept)]
    return result


def load_database(
    server: MariaDb, cluster: SlurmCluster, folder: Path, manifest: dict[str, Any], former: str
) -> None:
    """Load the backup's database, compare it with the manifest, and exchange it."""
    new = f"{cluster.database}_restoring"
    load(server, folder / DATABASE, new, int(manifest["database"]["bytes"]))
    loaded = server.jobs(new, cluster.jobs)
    if loaded["count"] < manifest["jobs"]["count"] or not server.tables(new):
        raise RefusalError(
            f"The backup brought {loaded['count']} jobs, and its manifest says "
            f"{manifest['jobs']['count']}. The database that is there is untouched. Use another backup."
        )
    # Loading takes time, and a daemon may have been started.
    require_stopped()
    exchange_databases(server, new, cluster.database, former)


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "path": {"type": "path", "required": True},
            "upgrades": {"type": "dict", "required": True},
            "operation": {"type": "str", "default": ""},
            "discard_newer": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
