"""Who has to measure what: the plays of verify.yml, the groups of the inventory, the values of the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gpufleet.racks.inventory import ONPREM, SERVERS, Inventory

PLAYBOOK = "playbooks/verify.yml"
_COLLECTION = "gpufleet.rack."
_IMPORT = "ansible.builtin.import_role"


def measuring_roles(project: Path) -> list[tuple[str, str]]:
    """(group, role) of every role that the playbook asks to measure, in its order."""
    plays = yaml.safe_load((project / PLAYBOOK).read_text(encoding="utf-8"))
    return [
        (str(play["hosts"]), str(task[_IMPORT]["name"]).removeprefix(_COLLECTION))
        for play in plays
        for task in play.get("tasks", ())
        if task.get(_IMPORT, {}).get("tasks_from") == "verify"
    ]


def roles_of_hosts(
    measuring: Sequence[tuple[str, str]], inventory: Inventory, hosts: Sequence[str]
) -> dict[str, list[str]]:
    """Host -> the roles that it has to have measured."""
    groups: Mapping[str, Any] = inventory["all"]["children"]
    return {host: [role for group, role in measuring if host in members_of(groups, group)] for host in hosts}


def members_of(groups: Mapping[str, Any], name: str) -> set[str]:
    """The hosts of a group and of the groups below it; `groups` are those of an inventory."""
    group = groups.get(name) or {}
    found = set(group.get("hosts") or {})
    for child in group.get("children") or {}:
        found |= members_of(groups, child)
    return found


def values_of_hosts(inventory: Inventory) -> dict[str, dict[str, Any]]:
    """Host -> the variables that its inventory gives to roles: of all, of its site, its own."""
    groups: Mapping[str, Any] = inventory["all"]["children"]
    everywhere: Mapping[str, Any] = inventory["all"]["vars"]
    return {
        host: {**everywhere, **groups[site]["vars"], **own}
        for among in (ONPREM, SERVERS)
        for site in groups.get(among, {}).get("children", {})
        for host, own in groups[site]["hosts"].items()
    }


def defaults_of_role(project: Path, role: str) -> dict[str, Any]:
    """Return the defaults of a role without templates, which only Ansible can resolve."""
    file = project / "roles" / role / "defaults" / "main.yml"
    if not file.is_file():
        return {}
    values = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    return {name: value for name, value in values.items() if "{{" not in str(value)}
