"""Consistent copies of slurmctld's state, accounting and configuration."""

from __future__ import annotations

import gzip
import subprocess
import tarfile
import time
from pathlib import Path

from ansible_collections.gpufleet.rack.plugins.module_utils.mariadb import MariaDb
from ansible_collections.gpufleet.rack.plugins.module_utils.refusal import RefusalError
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_files import (
    CONFIGURATION,
    NOT_STATE,
    as_slurm,
    free,
)

# Files without secrets; slurmdbd.conf has one.
CONFIGURED = (
    "slurm.conf",
    "gres.conf",
    "site.conf",
    "cgroup.conf",
    "topology.conf",
    "plugstack.conf",
    "job_container.conf",
)
PAUSE_S = 0.5


def listing(folder: Path) -> list[str]:
    """Name, size, time and inode of every file of the state, read as slurm."""
    left_out = [word for pattern in NOT_STATE for word in ("-name", pattern, "-prune", "-o")]
    command = as_slurm("find", str(folder), *left_out, "-type", "f", "-printf", "%P\t%s\t%T@\t%i\n")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd="/")
    if done.returncode:
        # A file that disappears during the listing is a change, not an error.
        gone = [line for line in done.stderr.splitlines() if "No such file" not in line]
        if gone or not folder_there(folder):
            raise RefusalError(
                f"The state of slurmctld in {folder} cannot be read: {(gone or ['there is none'])[-1]}. "
                f"See that it is "
                "mounted (`findmnt`) and slurm's own, then run again."
            )
    return sorted(done.stdout.splitlines())


def folder_there(folder: Path) -> bool:
    """Whether slurm can read the folder."""
    done = subprocess.run(as_slurm("test", "-d", str(folder)), check=False, timeout=60, cwd="/")
    return done.returncode == 0


def sizes(lines: list[str]) -> int:
    """Total bytes of a listing."""
    return sum(int(line.split("\t")[1]) for line in lines)


def copy_state(folder: Path, target: Path, quiet_s: float) -> int:
    """Copy the state until nothing changes meanwhile; the number of copies."""
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
            error = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise_for_space(target.parent, " ".join(error))
            gone = all(
                b"No such file" in line or b"previous errors" in line for line in done.stderr.splitlines()
            )
            if not gone:
                raise RefusalError(f"The state in {folder} cannot be copied: {' '.join(error)}")
        if time.monotonic() > until:
            break
        time.sleep(PAUSE_S)
    raise RefusalError(
        f"The state in {folder} changed during each of {attempt} copies within {quiet_s:.0f} s: none of "
        f"them is of one "
        "moment. Run again when less is going on, or with a longer quiet_s."
    )


def raise_for_space(folder: Path, error: str) -> None:
    """Refuse with a remedy if the disk is full."""
    if "No space left" in error or free(folder) < 1 << 20:
        raise RefusalError(
            f"The disk of {folder.parent} is full. Make room there, or name another folder, and run "
            f"again; nothing of "
            "this backup is left, and the earlier ones are untouched."
        )


def dump(server: MariaDb, database: str, target: Path, timeout_s: int) -> int:
    """Dump a database in one transaction; its bytes before compression."""
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
        error = process.stderr.read().decode(errors="replace").strip()
        code = process.wait(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()
        process.stderr.close()
    if code or b"-- Dump completed" not in tail:
        raise RefusalError(
            f"The dump of {database} did not come to its end: {error[-300:] or f'exit code {code}'}"
        )
    return size


def copy_configuration(target: Path) -> None:
    """Slurm's configuration files without secrets."""
    with tarfile.open(target, "w:gz") as out:
        for name in CONFIGURED:
            path = CONFIGURATION / name
            if path.is_file():
                out.add(path, arcname=name)
