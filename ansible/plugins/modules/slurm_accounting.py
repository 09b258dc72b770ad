#!/usr/bin/python
"""Accounts, users, QOS and GPU limits of a Slurm cluster, from its fleet file."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_accounting
short_description: Manages QOS, accounts, users and GPU limits in Slurm accounting
description:
  - Compares C(sacctmgr) with the wanted state, and changes differences.
  - Removes objects that it created and that are not listed; a file on the host records them. Other accounts,
    users and QOS are not changed.
  - In check mode accounting that does not answer counts as a difference.
options:
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  qos:
    description: QOS with C(name), C(priority), C(preempts), C(max_gpus_per_user) (-1 is no limit) and
      C(max_minutes) (0 is no limit).
    type: list
    elements: dict
    default: []
  accounts:
    description: Accounts with C(name), C(gpus) (limit), C(qos) of their jobs, and
      C(users). Their jobs can use that QOS, the team levels (low, normal, high) below it, and all other QOS.
    type: list
    elements: dict
    default: []
  timeout_s:
    description: Seconds to wait until accounting knows the cluster.
    type: int
    default: 90
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Create accounts
  gpufleet.rack.slurm_accounting:
    cluster: dc1
    qos:
      - {name: low, priority: 0, preempts: [], max_gpus_per_user: -1, max_minutes: 0}
      - {name: high, priority: 1000, preempts: [low], max_gpus_per_user: 16, max_minutes: 0}
    accounts:
      - {name: research, gpus: 64, qos: high, users: [ada]}
"""

RETURN = r"""
commands:
  description: Commands of sacctmgr, also in check mode.
  type: list
  returned: success
"""

import json
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish
from ansible_collections.gpufleet.rack.plugins.module_utils.sacctmgr import (
    GPU,
    SilentError,
    State,
    read,
    sacctmgr,
)

RECORD = Path("/var/lib/gpufleet/slurm-accounting.json")
MADE_BY = "gpufleet"
LEVELS = ("low", "normal", "high")
Command = list[str]


def wanted(qos: list[dict[str, Any]], accounts: list[dict[str, Any]]) -> State:
    """The wanted state, in the same form."""
    level = {item["name"]: item["priority"] for item in qos}
    state: State = {"qos": {}, "accounts": {}, "users": set()}
    for item in qos:
        state["qos"][item["name"]] = {
            "priority": item["priority"],
            "preempts": sorted(item["preempts"]),
            "max_gpus_per_user": item["max_gpus_per_user"],
            "max_minutes": item["max_minutes"],
        }
    for item in accounts:
        own = level.get(item["qos"], 0)
        state["accounts"][item["name"]] = {
            "gpus": item["gpus"],
            "default": item["qos"],
            "qos": sorted(
                name
                for name, priority in level.items()
                if name not in LEVELS or name == item["qos"] or priority < own
            ),
        }
        state["users"] |= {(item["name"], user) for user in item["users"]}
    return state


def qos_commands(has: State, wants: State) -> list[Command]:
    """All QOS first, since they refer to each other."""
    commands = [
        ["add", "qos", name, f"Description={MADE_BY}"] for name in wants["qos"] if name not in has["qos"]
    ]
    blank = {"priority": 0, "preempts": [], "max_gpus_per_user": -1, "max_minutes": 0}
    for name, item in wants["qos"].items():
        old = has["qos"].get(name, blank)
        settings = []
        if item["priority"] != old["priority"]:
            settings.append(f"Priority={item['priority']}")
        if item["preempts"] != old["preempts"]:
            settings.append(f"Preempt={','.join(item['preempts'])}")
        if item["max_gpus_per_user"] != old["max_gpus_per_user"]:
            settings.append(f"MaxTRESPerUser={GPU}={item['max_gpus_per_user']}")
        if item["max_minutes"] != old["max_minutes"]:
            settings.append(f"MaxWall={item['max_minutes'] or -1}")
        if settings:
            commands.append(["modify", "qos", "where", f"name={name}", "set", *settings])
    return commands


def account_commands(cluster: str, has: State, wants: State) -> list[Command]:
    """Accounts with their limits, then their users."""
    commands = []
    for name, item in wants["accounts"].items():
        old = has["accounts"].get(name)
        where = ["where", f"name={name}", f"cluster={cluster}"]
        if old is None:
            commands.append(
                [
                    *("add", "account", name, f"cluster={cluster}"),
                    *(f"Description={MADE_BY}", f"Organization={MADE_BY}"),
                ]
            )
            old = {"gpus": -1, "default": "", "qos": []}
        # The default must be one of the allowed QOS.
        if (item["qos"], item["default"]) != (old["qos"], old["default"]):
            commands.append(
                [
                    *("modify", "account", *where, "set"),
                    *(f"QOS={','.join(item['qos'])}", f"DefaultQOS={item['default']}"),
                ]
            )
        if item["gpus"] != old["gpus"]:
            commands.append(["modify", "account", *where, "set", f"GrpTRES={GPU}={item['gpus']}"])
    commands += [
        ["add", "user", user, f"account={account}", f"cluster={cluster}"]
        for account, user in sorted(wants["users"] - has["users"])
    ]
    return commands


def removals(cluster: str, has: State, wants: State, made: State) -> list[Command]:
    """Managed objects that are no longer listed. An account with other users stays."""
    commands = []
    gone = (made["users"] - wants["users"]) & has["users"]
    left = has["users"] - gone
    for account, user in sorted(gone):
        where = [f"name={user}", f"cluster={cluster}"]
        others = sorted(wants["users"]) + sorted(left)
        kept = [other for other, member in others if member == user]
        if kept and has["defaults"].get(user) == account:
            # Slurm 23.11 and later do not remove the default account of a user who has others
            # (_check_is_def_acct_before_remove in accounting_storage_mysql.c). Earlier ones leave the user
            # without one.
            commands.append(["modify", "user", "where", *where, "set", f"DefaultAccount={kept[0]}"])
        commands.append(["delete", "user", "where", where[0], f"account={account}", where[1]])
    for name in sorted((made["accounts"] - wants["accounts"].keys()) & has["accounts"].keys()):
        if not any(account == name for account, _ in left):
            commands.append(["delete", "account", "where", f"name={name}", f"cluster={cluster}"])
    commands += [
        ["delete", "qos", "where", f"name={name}"]
        for name in sorted((made["qos"] - wants["qos"].keys()) & has["qos"].keys())
    ]
    return commands


def recorded(path: Path) -> State:
    """Objects of earlier runs; empty without a record."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        data = {}
    return {
        "qos": set(data.get("qos", [])),
        "accounts": set(data.get("accounts", [])),
        "users": {(account, user) for account, user in data.get("users", [])},
    }


def remember(path: Path, made: State) -> None:
    """Write the record atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(
        json.dumps(
            {
                "qos": sorted(made["qos"]),
                "accounts": sorted(made["accounts"]),
                "users": sorted(map(list, made["users"])),
            }
        )
    )
    new.chmod(0o600)
    new.replace(path)


def newly_made(made: State, has: State, wants: State) -> State:
    """Managed objects after this run: those that were managed and are still listed, and new ones."""
    return {
        kind: (made[kind] & set(wants[kind])) | (set(wants[kind]) - set(has[kind]))
        for kind in ("qos", "accounts", "users")
    }


def change(command: Command) -> None:
    """Run one command; raises with the output of sacctmgr."""
    try:
        sacctmgr("-i", *command)
    except SilentError as failure:
        remedy = "Fix the cause and run again; completed changes stay."
        if "Job(s) active" in str(failure):
            remedy = "Jobs of it still run: wait for them or cancel them with scancel, and run again."
        raise RefusalError(f"Accounting refused: {failure}. {remedy}") from failure


def read_when_ready(cluster: str, timeout_s: int) -> State:
    """Wait for slurmdbd, and for slurmctld to register with it."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return read(cluster)
        except SilentError as failure:
            if time.monotonic() > deadline:
                raise RefusalError(
                    f"{failure}. slurmdbd and slurmctld have to run: see `journalctl -u slurmdbd -u "
                    "slurmctld` on the controllers, repair the cause and run again."
                ) from failure
        time.sleep(0.5)


def ensure(params: dict[str, Any], check: bool) -> list[Command]:
    """Bring accounting to the wanted state; the commands."""
    cluster = params["cluster"]
    wants = wanted(params["qos"], params["accounts"])
    made = recorded(RECORD)
    try:
        has = read(cluster) if check else read_when_ready(cluster, params["timeout_s"])
    except SilentError:
        has = {"qos": {}, "accounts": {}, "users": set(), "defaults": {}}
    commands = [
        *qos_commands(has, wants),
        *account_commands(cluster, has, wants),
        *removals(cluster, has, wants, made),
    ]
    if commands and not check:
        # Record before creating: a killed run must not lose track. The union, since
        # removals may fail.
        ours = newly_made(made, has, wants)
        remember(RECORD, {kind: made[kind] | ours[kind] for kind in ours})
        for command in commands:
            change(command)
        remember(RECORD, ours | {"accounts": ours["accounts"] | kept_accounts(made, wants, commands)})
    return commands


def kept_accounts(made: State, wants: State, commands: list[Command]) -> set[str]:
    """Managed accounts that are no longer listed but have other users."""
    gone = {words[3].removeprefix("name=") for words in commands if words[:2] == ["delete", "account"]}
    kept: set[str] = set(made["accounts"]) - wants["accounts"].keys() - gone
    return kept


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Compare and change; the result for Ansible."""
    commands = [" ".join(command) for command in ensure(params, check)]
    return {
        "changed": bool(commands),
        "commands": commands,
        "diff": difference("accounting", "", "".join(f"{line}\n" for line in commands)),
    }


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "qos": {"type": "list", "elements": "dict", "default": []},
            "accounts": {"type": "list", "elements": "dict", "default": []},
            "timeout_s": {"type": "int", "default": 90},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
