"""Files of a controller: its configuration and its state folder."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.gpufleet.rack.plugins.module_utils.refusal import RefusalError

CONFIGURATION = Path("/etc/slurm")
# Without files that only one controller writes while it runs, and without data kept by a restore.
NOT_STATE = ("heartbeat", "*.new", ".restoring", ".before-restore-*")
MANIFEST = "manifest.json"
DATABASE = "database.sql.gz"
STATE = "state.tar.gz"
CONFIG = "configuration.tar.gz"
USER = "slurm"


def settings(path: Path) -> dict[str, str]:
    """`Name=value` lines of a Slurm file, names in lower case; the first of a name counts."""
    try:
        text = path.read_text()
    except OSError as error:
        raise RefusalError(
            f"{path} cannot be read: {error.strerror}. Run `gpufleet configure` for this host first."
        ) from error
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.split("#")[0].strip().partition("=")
        if equals and " " not in name:
            found.setdefault(name.strip().lower(), value.strip().strip('"'))
    return found


class SlurmCluster:
    """The cluster of this host, from its configuration."""

    def __init__(self, expected: str) -> None:
        slurm = settings(CONFIGURATION / "slurm.conf")
        self.name = slurm.get("clustername", "")
        self.state = Path(slurm.get("statesavelocation", ""))
        self.database = settings(CONFIGURATION / "slurmdbd.conf").get("storageloc", "slurm_acct_db")
        if self.name != expected:
            raise RefusalError(
                f"This host is of cluster {self.name!r}, and the fleet file has {expected!r} here. Run "
                f"`gpufleet "
                "configure` first, or name the right site."
            )
        if (
            not self.database.replace("_", "").isalnum()
            or not self.name.replace("_", "").replace("-", "").isalnum()
        ):
            raise RefusalError(f"{self.database!r} of {self.name!r} is no name of a database.")

    @property
    def jobs(self) -> str:
        """The job table."""
        return f"{self.name}_job_table"


def as_slurm(*command: str) -> list[str]:
    """A command line to run as the user slurm: a file server may map root to nobody.

    Run it in a folder that slurm can enter; the working folder of Ansible is not.
    """
    if os.geteuid() != 0:
        return list(command)
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--", *command]


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            total.update(chunk)
    return total.hexdigest()


def free(folder: Path) -> int:
    """Free bytes for root below a folder."""
    about = os.statvfs(folder)
    return about.f_bfree * about.f_frsize


@contextlib.contextmanager
def exclusive_lock(folder: Path) -> Iterator[int]:
    """Allow one run at a time: the lock ends with the processes that hold it.

    A child that must not be interrupted inherits the descriptor: it may outlive the module.
    """
    with (folder / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefusalError(
                f"Another backup or restore is running in {folder}. Wait for it, then run again."
            ) from None
        yield lock.fileno()


def mib(size: int) -> str:
    """Bytes in readable form."""
    return f"{size / 2**20:.1f} MiB"
