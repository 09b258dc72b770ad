#!/usr/bin/python
"""User accounts with the same UIDs and GIDs on every host, in one round trip."""

from __future__ import annotations

DOCUMENTATION = r"""
module: accounts
short_description: Manages groups and user accounts
description:
  - Creates groups and accounts with given IDs, their memberships, and ssh keys in a folder that root owns.
  - Refuses an ID that another name has, and a name with another ID, before it changes anything.
  - Locks accounts that it created and that are no longer listed; deletes none.
options:
  groups:
    description: Groups, C(name) and C(gid).
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name.
        type: str
        required: true
      gid:
        description: GID.
        type: int
        required: true
  accounts:
    description: User accounts.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Login name.
        type: str
        required: true
      uid:
        description: UID.
        type: int
        required: true
      gid:
        description: GID of the private group.
        type: int
        required: true
      groups:
        description: Additional groups.
        type: list
        elements: str
        default: []
      ssh_keys:
        description: Public keys for login.
        type: list
        elements: str
        default: []
      sudo:
        description: For the caller; not used by this module.
        type: bool
        default: false
  homes:
    description: Parent of new home folders.
    type: str
    default: /home
  make_homes:
    description: Whether to create home folders.
    type: bool
    default: true
  shell:
    description: Shell of new accounts.
    type: str
    default: /bin/bash
  keys:
    description: Folder with one file of public keys per account.
    type: str
    required: true
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Create accounts
  gpufleet.rack.accounts:
    groups: [{name: vision, gid: 3000}]
    accounts: [{name: ada, uid: 2001, gid: 2001, groups: [vision], ssh_keys: ["ssh-ed25519 AAAA..."]}]
    keys: /etc/ssh/authorized_keys
"""

RETURN = r"""
actions:
  description: Changes, or changes that check mode would make, one line each.
  type: list
  returned: always
"""

import grp
import json
import os
import pwd
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError, difference, finish

RECORD = Path("/var/lib/gpufleet/accounts.json")
HEADER = "# Written by gpufleet, which overwrites it. A user's own keys belong into ~/.ssh/authorized_keys.\n"


class HostAccounts(NamedTuple):
    """Users and groups of the host, from any directory service."""

    users: dict[str, pwd.struct_passwd]
    groups: dict[str, grp.struct_group]
    locked: set[str]

    @classmethod
    def read(cls) -> HostAccounts:
        """Read them again."""
        users = {entry.pw_name: entry for entry in pwd.getpwall()}
        groups = {entry.gr_name: entry for entry in grp.getgrall()}
        return cls(users, groups, expired())


def expired() -> set[str]:
    """Accounts with an expiry date in the past in /etc/shadow, as locked ones have."""
    try:
        lines = Path("/etc/shadow").read_text().splitlines()
    except OSError:
        return set()
    fields = [line.split(":") for line in lines]
    return {words[0] for words in fields if len(words) > 7 and words[7] in ("0", "1")}


def refuse_conflicts(
    host: HostAccounts, groups: list[dict[str, Any]], accounts: list[dict[str, Any]]
) -> None:
    """Refuse all conflicts at once, before any change."""
    by_uid = {entry.pw_uid: name for name, entry in host.users.items()}
    by_gid = {entry.gr_gid: name for name, entry in host.groups.items()}
    uids = {name: entry.pw_uid for name, entry in host.users.items()}
    gids = {name: entry.gr_gid for name, entry in host.groups.items()}
    problems = []
    for name, number, kind, owner, has in (
        *((g["name"], g["gid"], "gid", by_gid.get(g["gid"]), gids.get(g["name"])) for g in groups),
        *((a["name"], a["uid"], "uid", by_uid.get(a["uid"]), uids.get(a["name"])) for a in accounts),
    ):
        if owner not in (None, name):
            problems.append(f"{kind} {number} of {name} belongs to {owner} on this host")
        if has not in (None, number):
            problems.append(f"{name} has {kind} {has} on this host and {number} in the fleet file")
    named = {group["gid"]: group["name"] for group in groups}
    for account in accounts:
        owner = by_gid.get(account["gid"], named.get(account["gid"]))
        if owner not in (None, account["name"]) and account["gid"] not in named:
            problems.append(
                f"gid {account['gid']} of {account['name']} belongs to the group {owner} on this host"
            )
        known = host.groups.keys() | {group["name"] for group in groups}
        problems += [
            f"{account['name']} is to be in the group {group}, which neither the host nor the fleet file has"
            for group in account["groups"]
            if group not in known
        ]
    if problems:
        raise RefusalError(
            f"{'; '.join(problems)}. A number means one person on every host, or files change owners: "
            "correct the fleet file, or give the host's own account another number (usermod -u, "
            "groupmod -g, chown of its files). Nothing was changed."
        )


class Step(NamedTuple):
    """A step: a description, and a command, a file with its text, or a file to remove."""

    words: str
    command: tuple[str, ...] = ()
    path: str = ""
    text: str | None = None


def primary_group(account: dict[str, Any], host: HostAccounts, groups: list[dict[str, Any]]) -> Step | None:
    """The private group, if no other group has its GID."""
    if account["gid"] in {group["gid"] for group in groups}:
        return None
    if account["gid"] in {entry.gr_gid for entry in host.groups.values()}:
        return None
    command = ["groupadd", "-g", str(account["gid"]), account["name"]]
    return Step(f"group {account['name']} {account['gid']}", tuple(command))


def memberships(account: dict[str, Any], host: HostAccounts, managed: set[str]) -> list[str] | None:
    """Supplementary groups to set for an account; None if they are correct.

    Groups of the fleet file exactly; other groups of the host (docker, video) are kept and added as listed.
    """
    name = account["name"]
    has = {group for group, entry in host.groups.items() if name in entry.gr_mem}
    wants = (has - managed) | set(account["groups"])
    return None if has == wants else sorted(wants)


def account_steps(
    account: dict[str, Any], host: HostAccounts, managed: set[str], params: dict[str, Any]
) -> list[Step]:
    """Missing parts of one account."""
    name = account["name"]
    groups = memberships(account, host, managed)
    if name not in host.users:
        command = ["useradd", "-u", str(account["uid"]), "-g", str(account["gid"]), "-s", params["shell"]]
        command += ["-d", f"{params['homes'].rstrip('/')}/{name}", "-m" if params["make_homes"] else "-M"]
        # No password: keys only.
        command += ["-p", "*", *(["-G", ",".join(account["groups"])] if account["groups"] else []), name]
        return [Step(f"account {name} {account['uid']}", tuple(command))]
    steps = []
    if host.users[name].pw_gid != account["gid"]:
        steps.append(
            Step(f"{name}: own group {account['gid']}", ("usermod", "-g", str(account["gid"]), name))
        )
    if groups is not None:
        text = ",".join(groups)
        steps.append(Step(f"{name}: groups {text or '(none)'}", ("usermod", "-G", text, name)))
    if name in host.locked:
        steps.append(Step(f"{name}: unlocked", ("usermod", "-e", "", name)))
    return steps


def key_steps(accounts: list[dict[str, Any]], folder: Path) -> list[Step]:
    """Key files that differ, and key files of accounts that are not listed."""
    texts = {
        a["name"]: HEADER + "".join(f"{key}\n" for key in a["ssh_keys"]) for a in accounts if a["ssh_keys"]
    }
    steps = []
    for name, text in texts.items():
        path = folder / name
        if not path.is_file() or path.read_text(errors="replace") != text:
            steps.append(Step(f"{name}: {text.count(chr(10)) - 1} ssh keys", path=str(path), text=text))
    for path in sorted(folder.glob("*")) if folder.is_dir() else []:
        if path.name not in texts and path.is_file() and path.read_text(errors="replace").startswith(HEADER):
            steps.append(Step(f"{path.name}: no ssh keys", path=str(path)))
    return steps


def made_before() -> list[str]:
    """Accounts that this module created on this host."""
    try:
        return list(json.loads(RECORD.read_text())["made"])
    except (OSError, ValueError, KeyError, TypeError):
        return []


def plan(params: dict[str, Any], host: HostAccounts, made: list[str]) -> list[Step]:
    """All missing steps, in order."""
    groups, accounts = params["groups"], params["accounts"]
    managed = {group["name"] for group in groups}
    steps = [
        Step(f"group {g['name']} {g['gid']}", ("groupadd", "-g", str(g["gid"]), g["name"]))
        for g in groups
        if g["name"] not in host.groups
    ]
    for account in accounts:
        own = primary_group(account, host, groups)
        steps += [own] if own else []
    for account in accounts:
        steps += account_steps(account, host, managed, params)
    steps += key_steps(accounts, Path(params["keys"]))
    named = {account["name"] for account in accounts}
    # Expired, not only without a password: keys in the home folder would still log in.
    steps += [
        Step(f"{name}: locked", ("usermod", "-L", "-e", "1", name))
        for name in made
        if name not in named and name in host.users and name not in host.locked
    ]
    return steps


def write(path: Path, text: str) -> None:
    """Replace a file atomically; root owns it and sshd can read it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(handle, "w") as stream:
        stream.write(text)
    Path(name).chmod(0o644)
    Path(name).replace(path)


def apply(step: Step) -> None:
    """Run one step."""
    if step.command:
        done = subprocess.run(step.command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RefusalError(
                f"{step.words}: {step.command[0]} ended with code {done.returncode}: {done.stderr.strip()} "
                "Fix it on the host and run again; earlier changes stay."
            )
    elif step.text is not None:
        write(Path(step.path), step.text)
    else:
        Path(step.path).unlink(missing_ok=True)


def work(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Compare and change; the result for Ansible."""
    host, made = HostAccounts.read(), made_before()
    refuse_conflicts(host, params["groups"], params["accounts"])
    steps = plan(params, host, made)
    if steps and not check:
        fresh = [a["name"] for a in params["accounts"] if a["name"] not in host.users]
        # Before they are created: a killed run must not lose track of its accounts.
        write(RECORD, json.dumps({"made": sorted({*made, *fresh})}))
        for step in steps:
            apply(step)
    actions = [step.words for step in steps]
    return {
        "changed": bool(actions),
        "actions": actions,
        "diff": difference("accounts", "", "\n".join(actions)),
    }


def main() -> None:
    """Entry point."""
    group = {"name": {"type": "str", "required": True}, "gid": {"type": "int", "required": True}}
    account = {
        "name": {"type": "str", "required": True},
        "uid": {"type": "int", "required": True},
        "gid": {"type": "int", "required": True},
        "groups": {"type": "list", "elements": "str", "default": []},
        "ssh_keys": {"type": "list", "elements": "str", "default": [], "no_log": False},
        "sudo": {"type": "bool", "default": False},
    }
    module = AnsibleModule(
        argument_spec={
            "groups": {"type": "list", "elements": "dict", "default": [], "options": group},
            "accounts": {"type": "list", "elements": "dict", "default": [], "options": account},
            "homes": {"type": "str", "default": "/home"},
            "make_homes": {"type": "bool", "default": True},
            "shell": {"type": "str", "default": "/bin/bash"},
            "keys": {"type": "str", "required": True, "no_log": False},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: work(module.params, module.check_mode))


if __name__ == "__main__":
    main()
