"""MariaDB of this host, which has Slurm's accounting."""

from __future__ import annotations

import shutil
import subprocess

from ansible_collections.gpufleet.rack.plugins.module_utils.refusal import RefusalError


class MariaDb:
    """MariaDB of this host, over its socket as root: no password is needed or sent.

    Names of databases and tables come from `SlurmCluster`, which refuses invalid names.
    """

    LOGIN = ("--protocol=socket", "--user=root")

    def __init__(self, timeout_s: int = 600) -> None:
        """`timeout_s` is how long a statement may take. Refuses a host without the programs of MariaDB."""
        self.client = _one_of("mariadb", "mysql")
        self.dumper = _one_of("mariadb-dump", "mysqldump")
        self.timeout_s = timeout_s

    def ask(self, statement: str) -> list[list[str]]:
        """The rows of a statement."""
        done = subprocess.run(
            [self.client, "--batch", "--skip-column-names", *self.LOGIN],
            input=statement,
            capture_output=True,
            text=True,
            check=False,
            timeout=self.timeout_s,
        )
        if done.returncode:
            raise RefusalError(
                f"MariaDB refused: {done.stderr.strip()[-400:]}. root has to be able to log in over the "
                "socket (plugin unix_socket, as the distribution sets it up). See `journalctl -u mariadb` on "
                "the host, repair the cause and run again."
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


def _one_of(*names: str) -> str:
    """The first of some programs that is installed."""
    for name in names:
        if found := shutil.which(name):
            return found
    raise RefusalError(
        f"The host has none of the programs {', '.join(names)}. Run `gpufleet configure` for it."
    )
