#!/usr/bin/python
"""A backup of a cluster: its accounting, what slurmctld knows, and its configuration; whole or not at all."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_backup
short_description: Backs up the accounting database and slurmctld's state
description:
  - Runs on the host of MariaDB that is a controller as well.
  - Copies slurmctld's state so that no file of it changed meanwhile, and then dumps the database in one
    transaction. In
    this order accounting may know of jobs that the state does not; the other way round records would be
    overwritten.
  - Everything is written beside the backups and renamed at the end. A backup that does not come to its end
    leaves
    nothing behind, and the earlier ones untouched.
  - Neither munge's key nor the database's password is in it.
options:
  cluster:
    description: The cluster's name, which the host's configuration has to have as well.
    type: str
    required: true
  folder:
    description: Where backups are kept, a folder each.
    type: path
    default: /var/backups/gpufleet/slurm
  keep:
    description: How many backups are kept; the oldest go when a new one is whole.
    type: int
    default: 7
  reserve_mib:
    description: MiB that have to be free beside what the backup may need.
    type: int
    default: 256
  quiet_s:
    description: Seconds in which a copy of the state has to succeed during which no file changed.
    type: int
    default: 60
  timeout_s:
    description: Seconds that the dump may take.
    type: int
    default: 7200
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Back up the cluster
  gpufleet.rack.slurm_backup:
    cluster: dc1
  register: backup
"""

RETURN = r"""
path:
  description: The folder of the backup; empty in check mode.
  type: str
  returned: success
files:
  description: Names of its files, the manifest among them.
  type: list
  returned: success
size:
  description: Bytes of all of them.
  type: int
  returned: success
removed:
  description: Older backups that were removed.
  type: list
  returned: success
"""

import gzip
import json
import os
import re
import shutil
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, finish
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_files import (
    CONFIG,
    CONFIGURATION,
    DATABASE,
    MANIFEST,
    NOT_STATE,
    STATE,
    Cluster,
    Server,
    alone,
    as_slurm,
    digest,
    free,
    mib,
)
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_versions import installed, version_here

FORMAT = 1
# Where the node exporter, if there is one, reads what others measured; an alert asks how old a backup is.
TEXTFILES = Path("/var/lib/prometheus/node-exporter")
METRIC = "gpufleet_backup_last_success_timestamp_seconds"
# Files that hold no secret; slurmdbd.conf does.
CONFIGURED = (
    "slurm.conf",
    "gres.conf",
    "cgroup.conf",
    "topology.conf",
    "plugstack.conf",
    "job_container.conf",
)
NAME = re.compile(r"slurm-.+-\d{8}T\d{6}Z")
PARTIAL = ".new-"
PAUSE_S = 0.5


def listing(folder: Path) -> list[str]:
    """Name, size, time and number of every file of the state, as slurm sees them."""
    left_out = [word for pattern in NOT_STATE for word in ("-name", pattern, "-prune", "-o")]
    command = as_slurm("find", str(folder), *left_out, "-type", "f", "-printf", "%P\t%s\t%T@\t%i\n")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd="/")
    if done.returncode:
        # A file that went while it was listed is a change as well, and no fault.
        gone = [line for line in done.stderr.splitlines() if "No such file" not in line]
        if gone or not folder_there(folder):
            raise RefusalError(
                f"The state of slurmctld in {folder} cannot be read: {(gone or ['there is none'])[-1]}. "
                f"See that it is "
                "mounted (`findmnt`) and slurm's own, then run again."
            )
    return sorted(done.stdout.splitlines())


def folder_there(folder: Path) -> bool:
    """Whether slurm sees the folder."""
    done = subprocess.run(as_slurm("test", "-d", str(folder)), check=False, timeout=60, cwd="/")
    return done.returncode == 0


def sizes(lines: list[str]) -> int:
    """Bytes of all files of a listing."""
    return sum(int(line.split("\t")[1]) for line in lines)


def copy_state(folder: Path, target: Path, quiet_s: float) -> int:
    """Copies the state until nothing changed meanwhile; how many copies it took."""
    until = time.monotonic() + quiet_s
    left_out = [f"--exclude={pattern}" for pattern in NOT_STATE]
    for attempt in range(1, 1_000_000):
        before = listing(folder)
        with target.open("wb") as out:
            done = subprocess.run(
                as_slurm("tar", "--create", "--gzip", "-C", str(folder), *left_out, "."),
                stdout=out,
                stderr=subprocess.PIPE,
                check=False,
                timeout=1800,
                cwd="/",
            )
        if done.returncode == 0 and listing(folder) == before:
            return attempt
        if done.returncode > 1:  # 1: a file changed while it was read
            said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise_for_space(target.parent, " ".join(said))
            gone = all(
                b"No such file" in line or b"previous errors" in line for line in done.stderr.splitlines()
            )
            if not gone:
                raise RefusalError(f"The state in {folder} cannot be copied: {' '.join(said)}")
        if time.monotonic() > until:
            break
        time.sleep(PAUSE_S)
    raise RefusalError(
        f"The state in {folder} changed during each of {attempt} copies within {quiet_s:.0f} s: none of "
        f"them is of one "
        "moment. Run again when less is going on, or with a longer quiet_s."
    )


def raise_for_space(folder: Path, said: str) -> None:
    """Refuses in the right words if the disk is full."""
    if "No space left" in said or free(folder) < 1 << 20:
        raise RefusalError(
            f"The disk of {folder.parent} is full. Make room there, or name another folder, and run "
            f"again; nothing of "
            "this backup is left, and the earlier ones are untouched."
        )


def dump(server: Server, database: str, target: Path, timeout_s: int) -> int:
    """Dumps a database in one transaction; bytes of it before compression."""
    command = [
        server.dumper,
        *server.LOGIN,
        "--single-transaction",
        "--quick",
        "--skip-lock-tables",
        "--hex-blob",
    ]
    size, tail = 0, b""
    deadline = time.monotonic() + timeout_s
    process = subprocess.Popen([*command, database], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        with gzip.open(target, "wb", compresslevel=3) as out:
            while chunk := process.stdout.read(1 << 20):
                out.write(chunk)
                size += len(chunk)
                tail = (tail + chunk)[-200:]
                if time.monotonic() > deadline:
                    raise RefusalError(
                        f"The dump of {database} took longer than {timeout_s} s. Run again with more."
                    )
        said = process.stderr.read().decode(errors="replace").strip()
        code = process.wait(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()
        process.stderr.close()
    if code or b"-- Dump completed" not in tail:
        raise RefusalError(
            f"The dump of {database} did not come to its end: {said[-300:] or f'exit code {code}'}"
        )
    return size


def copy_configuration(target: Path) -> None:
    """Slurm's files that hold no secret."""
    with tarfile.open(target, "w:gz") as out:
        for name in CONFIGURED:
            path = CONFIGURATION / name
            if path.is_file():
                out.add(path, arcname=name)


def ask(*words: str) -> str | None:
    """What a command of Slurm's says; None if it fails or hangs."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    # `scontrol ping` fails when one of several controllers is down, and says so.
    return done.stdout if done.returncode == 0 or words[1] == "ping" else None


def queue() -> list[dict[str, str]] | None:
    """Number, state and user of the jobs that slurmctld has; None if it does not answer."""
    # Without one that answers, squeue would try for half a minute.
    if " is UP" not in (ask("scontrol", "ping") or ""):
        return None
    said = ask("squeue", "-h", "-a", "-o", "%A|%T|%u")
    if said is None:
        return None
    rows = [line.split("|") for line in said.splitlines() if line.count("|") == 2]
    return [{"job": job, "state": state, "user": user} for job, state, user in sorted(rows)]


def sync(path: Path) -> None:
    """What was written is on the disk before its name is."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def room(folder: Path, needed: int, reserve: int) -> None:
    """Refuses before anything is written where the backup may not fit."""
    # The first backup makes the folder.
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
    """Whole backups, the oldest first."""
    found = [
        path for path in folder.glob("slurm-*") if NAME.fullmatch(path.name) and (path / MANIFEST).is_file()
    ]
    return sorted(found, key=lambda path: path.name.rsplit("-", 1)[1])


def make(cluster: Cluster, server: Server, target: Path, params: dict[str, Any]) -> dict[str, Any]:
    """Writes all files of a backup into a folder; its manifest."""
    before = queue()
    copies = copy_state(cluster.state, target / STATE, params["quiet_s"])
    jobs = server.jobs(cluster.database, cluster.jobs)
    plain = dump(server, cluster.database, target / DATABASE, params["timeout_s"])
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
    """Tells Prometheus when the last backup was made, where it measures this host."""
    if not TEXTFILES.is_dir():
        return
    partial = TEXTFILES / "gpufleet_backup_slurm.prom.new"
    partial.write_text(f'# TYPE {METRIC} gauge\n{METRIC}{{backup="slurm"}} {time.time():.0f}\n')
    partial.chmod(0o644)
    partial.rename(partial.with_suffix(""))


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Makes a backup; the result for Ansible."""
    cluster = Cluster(params["cluster"])
    server = Server()
    folder = Path(params["folder"])
    needed = server.size(cluster.database) + sizes(listing(cluster.state))
    if check:
        room(folder, needed, params["reserve_mib"] << 20)
        return {"changed": True, "path": "", "files": [], "size": 0, "removed": []}
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    with alone(folder):
        for path in folder.glob(f"{PARTIAL}*"):  # of a run that was killed
            shutil.rmtree(path)
        room(folder, needed, params["reserve_mib"] << 20)
        name = f"slurm-{cluster.name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
        partial = folder / f"{PARTIAL}{name}"
        try:
            partial.mkdir(mode=0o700)
            manifest = make(cluster, server, partial, params)
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
        removed = old[: max(0, len(old) - max(1, params["keep"]))]
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


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "folder": {"type": "path", "default": "/var/backups/gpufleet/slurm"},
            "keep": {"type": "int", "default": 7},
            "reserve_mib": {"type": "int", "default": 256},
            "quiet_s": {"type": "int", "default": 60},
            "timeout_s": {"type": "int", "default": 7200},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
