"""Files of a controller: its configuration, state folder and database."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
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


class Cluster:
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


class Server:
    """MariaDB of this host, over its socket as root: no password is needed or sent.

    Names of databases and tables come from `Cluster`, which refuses invalid names.
    """

    LOGIN = ("--protocol=socket", "--user=root")

    def __init__(self) -> None:
        self.client = one_of("mariadb", "mysql")
        self.dumper = one_of("mariadb-dump", "mysqldump")

    def ask(self, statement: str, timeout_s: int = 600) -> list[list[str]]:
        """The rows of a statement."""
        done = subprocess.run(
            [self.client, "--batch", "--skip-column-names", *self.LOGIN],
            input=statement,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
        if done.returncode:
            raise RefusalError(
                f"MariaDB refused: {done.stderr.strip()[-400:]}. See `journalctl -u mariadb` on the host, "
                "repair the cause and run again."
            )
        return [line.split("\t") for line in done.stdout.splitlines()]

    def tables(self, database: str) -> list[str]:
        """The tables of a database; empty if it does not exist."""
        where = f"WHERE table_schema='{database}' ORDER BY 1;"
        text = f"SELECT table_name FROM information_schema.tables {where}"  # noqa: S608
        return [row[0] for row in self.ask(text)]

    def size(self, database: str) -> int:
        """Bytes of the rows of a database, as estimated by the server."""
        where = f"WHERE table_schema='{database}';"
        text = f"SELECT COALESCE(SUM(data_length), 0) FROM information_schema.tables {where}"  # noqa: S608
        return int(self.ask(text)[0][0])

    def jobs(self, database: str, table: str) -> dict[str, int]:
        """Number of jobs: `count`, `last_id`, and the latest `submitted` and `changed`, in seconds
        of the epoch."""
        names = ("count", "submitted", "changed", "last_id")
        if table not in self.tables(database):
            return dict.fromkeys(names, 0)
        fields = (
            "COUNT(*), COALESCE(MAX(time_submit), 0), COALESCE(MAX(mod_time), 0), COALESCE(MAX(id_job), 0)"
        )
        rows = self.ask(f"SELECT {fields} FROM `{database}`.`{table}`;")  # noqa: S608
        return dict(zip(names, map(int, rows[0]), strict=True))


def one_of(*names: str) -> str:
    """The first of some programs that is installed."""
    for name in names:
        if found := shutil.which(name):
            return found
    raise RefusalError(
        f"The host has none of the programs {', '.join(names)}. Run `gpufleet configure` for it."
    )


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
