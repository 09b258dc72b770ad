#!/usr/bin/python
"""A database of the local MariaDB and its user."""

from __future__ import annotations

DOCUMENTATION = r"""
module: database_user
short_description: Creates a MariaDB database and its user
description:
  - Creates the database and the user, sets the password and grants access to that database only.
  - Connects to MariaDB over its socket as root. The password is sent as a hash, on standard input, so that
    it is in no argument and in no server log.
  - In check mode a missing or stopped MariaDB counts as a difference.
options:
  database:
    description: Database name, in letters, digits and underscores.
    type: str
    required: true
  user:
    description: User, which can log in from this host only.
    type: str
    required: true
  password:
    description: Password of the user.
    type: str
    required: true
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Create the slurmdbd database
  gpufleet.rack.database_user:
    database: slurm_acct_db
    user: slurm
    password: "{{ slurm_database_password }}"
  no_log: true
"""

RETURN = r"""
statements:
  description: Changes, or changes that check mode would make, without the password.
  type: list
  returned: success
"""

import hashlib
import re
import subprocess
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.mariadb import MariaDb
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish

HOST = "localhost"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
PLUGIN = "mysql_native_password"
USERS = "SELECT user, host, plugin, authentication_string FROM mysql.user;"


def running() -> MariaDb | None:
    """MariaDB, if it is installed and answers."""
    try:
        server = MariaDb(timeout_s=60)
        return server if server.ask("SELECT 1;") == [["1"]] else None
    except (RefusalError, OSError, subprocess.TimeoutExpired):
        return None


def hashed(password: str) -> str:
    """Hash of a password for mysql_native_password."""
    first = hashlib.sha1(password.encode(), usedforsecurity=False).digest()
    return "*" + hashlib.sha1(first, usedforsecurity=False).hexdigest().upper()


def missing(server: MariaDb, database: str, user: str, secret: str) -> list[tuple[str, str]]:
    """Missing statements, each with a description without secrets."""
    who = f"'{user}'@'{HOST}'"
    needed = []
    schemata = server.ask("SELECT schema_name FROM information_schema.schemata;")
    if [database] not in schemata:
        needed.append((f"CREATE DATABASE `{database}`;", f"create database {database}"))
    users = {(row[0], row[1]): row[2:] for row in server.ask(USERS)}
    found = users.get((user, HOST))
    login = f"{who} IDENTIFIED VIA {PLUGIN} USING '{secret}';"
    if found is None:
        needed.append((f"CREATE USER {login}", f"create user {who}"))
    elif found != [PLUGIN, secret]:
        needed.append((f"ALTER USER {login}", f"set the password of {who}"))
    granted = [row[0] for row in server.ask(f"SHOW GRANTS FOR {who};")] if found else []
    # MariaDB shows `_` in a granted database name with or without a backslash.
    right = re.compile(rf"GRANT ALL PRIVILEGES ON `{database}`\.\* TO ", re.IGNORECASE)
    if not any(right.match(line.replace("\\", "")) for line in granted):
        name = database.replace("_", r"\_")
        needed.append((f"GRANT ALL PRIVILEGES ON `{name}`.* TO {who};", f"grant {database} to {who}"))
    return needed


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Apply what is missing; the result for Ansible."""
    done = make(params["database"], params["user"], params["password"], check)
    return {
        "changed": bool(done),
        "statements": done,
        "diff": difference("database", "", "".join(f"{line}\n" for line in done)),
    }


def make(database: str, user: str, password: str, check: bool) -> list[str]:
    """Apply what is missing; the descriptions."""
    for name in (database, user):
        if not NAME.fullmatch(name):
            raise RefusalError(
                f"{name!r} is no name for a database or its user: letters, digits and underscores, up to 32."
            )
    server = running()
    if server is None:
        if check:
            return [f"create database {database}", f"create user '{user}'@'{HOST}'"]
        raise RefusalError(
            "MariaDB does not answer on its socket. See `journalctl -u mariadb` on the host, fix the cause "
            "and run again."
        )
    needed = missing(server, database, user, hashed(password))
    if not check:
        for statement, _ in needed:
            server.ask(statement)
    return [words for _, words in needed]


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "database": {"type": "str", "required": True},
            "user": {"type": "str", "required": True},
            "password": {"type": "str", "required": True, "no_log": True},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode), {"invocation": {}})


if __name__ == "__main__":
    main()
