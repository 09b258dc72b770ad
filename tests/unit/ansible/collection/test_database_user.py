"""A database and its user: the password is in no argument, and only differences are changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
WANTED = {"database": "slurm_acct_db", "user": "slurm", "password": "planted-password-1"}
# Answers by statement, and keeps changes.
MARIADB = """\
read -r statement
case "$statement" in
  "SELECT 1;") echo 1;;
  *schemata*) cat {folder}/schemata;;
  *mysql.user*) cat {folder}/users;;
  "SHOW GRANTS"*) cat {folder}/grants;;
  *) echo "$statement" >>{folder}/asked;;
esac
"""


class Server:
    """A MariaDB whose tables are files."""

    def __init__(self, folder: Path, programs: Programs) -> None:
        self.folder, self.programs = folder, programs
        folder.mkdir()
        programs.add("mariadb", MARIADB.replace("{folder}", str(folder)))
        programs.add("mariadb-dump", "exit 1")
        self.has()

    def has(
        self, *, schemata: str = "mysql\n", users: str = "root\tlocalhost\tunix_socket\t\n", grants: str = ""
    ) -> None:
        for name, text in (("schemata", schemata), ("users", users), ("grants", grants)):
            (self.folder / name).write_text(text)

    def asked(self) -> list[str]:
        path = self.folder / "asked"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def module() -> ModuleType:
    return load("database_user")


@pytest.fixture
def server(tmp_path: Path, programs: Programs) -> Server:
    return Server(tmp_path / "server", programs)


def complete(module: ModuleType, server: Server, password: str = WANTED["password"]) -> None:
    server.has(
        schemata="mysql\nslurm_acct_db\n",
        users=f"slurm\tlocalhost\tmysql_native_password\t{module.hashed(password)}\n",
        grants="GRANT USAGE ON *.* TO `slurm`@`localhost`\n"
        "GRANT ALL PRIVILEGES ON `slurm\\\\_acct\\\\_db`.* TO `slurm`@`localhost`\n",
    )


def test_hash_equals_that_of_mariadb(module: ModuleType) -> None:
    # MariaDB's documentation of PASSWORD(): SELECT PASSWORD('notagoodpwd').
    assert module.hashed("notagoodpwd") == "*3A70EE9FC6594F88CE9E959CD51C5A1C002DC937"


def test_user_and_grant_are_created_and_check_mode_reports_them(
    module: ModuleType, server: Server, run: Run
) -> None:
    predicted = run(module, check=True, **WANTED)
    assert server.asked() == []
    done = run(module, **WANTED)
    assert done["statements"] == predicted["statements"]
    digest = module.hashed(WANTED["password"])
    assert server.asked() == [
        "CREATE DATABASE `slurm_acct_db`;",
        f"CREATE USER 'slurm'@'localhost' IDENTIFIED VIA mysql_native_password USING '{digest}';",
        "GRANT ALL PRIVILEGES ON `slurm\\_acct\\_db`.* TO 'slurm'@'localhost';",
    ]


def test_existing_user_is_unchanged(module: ModuleType, server: Server, run: Run) -> None:
    complete(module, server)
    assert run(module, **WANTED)["changed"] is False
    assert server.asked() == []


def test_changed_password_is_the_only_change(module: ModuleType, server: Server, run: Run) -> None:
    complete(module, server, "the-one-before")
    assert run(module, **WANTED)["statements"] == ["set the password of 'slurm'@'localhost'"]
    assert [line.split(" IDENTIFIED")[0] for line in server.asked()] == ["ALTER USER 'slurm'@'localhost'"]


def test_password_is_in_no_argument_and_no_result(
    module: ModuleType, server: Server, programs: Programs, run: Run
) -> None:
    done = run(module, **WANTED)
    assert programs.called("mariadb")
    assert not any(WANTED["password"] in line for line in [*programs.called(), *server.asked()])
    # Ansible returns the arguments, and hides those marked as secret.
    assert WANTED["password"] not in str(done)


@pytest.mark.parametrize("installed", [True, False])
def test_check_mode_works_before_mariadb_answers(
    module: ModuleType, programs: Programs, run: Run, installed: bool
) -> None:
    if installed:
        programs.add("mariadb", 'echo "Can\'t connect to local server" >&2; exit 1')
    assert run(module, check=True, **WANTED)["changed"] is True
    failed = run(module, **WANTED)
    assert "does not answer on its socket" in failed["msg"]
    assert WANTED["password"] not in str(failed)


@pytest.mark.parametrize("name", ["a`b", "x'; DROP", "", "ä"])
def test_invalid_names_are_refused(module: ModuleType, server: Server, run: Run, name: str) -> None:
    assert "is no name" in run(module, **WANTED | {"database": name})["msg"]
    assert server.asked() == []
