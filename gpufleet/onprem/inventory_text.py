"""An inventory as the YAML that Ansible reads, and its groups as plain lists of hosts."""

from __future__ import annotations

from typing import Any

from gpufleet.onprem.inventory import Inventory
from gpufleet.yaml_text import Unsafe, dump_yaml

_HEADER = "# Written by `gpufleet inventory`. Change the fleet file, not this: the next run overwrites it.\n"
_TEMPLATE_MARKS = ("{{", "{%", "{#")


def render(inventory: Inventory) -> str:
    """The inventory as YAML text with a comment that says where it comes from."""
    return _HEADER + dump_yaml(_inert(inventory))


def _inert(value: Any) -> Any:
    """The value with template marks tagged `!unsafe`, so that Ansible takes a tag's text as text."""
    if isinstance(value, dict):
        return {key: _inert(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_inert(item) for item in value]
    if isinstance(value, str) and any(mark in value for mark in _TEMPLATE_MARKS):
        return Unsafe(value)
    return value


def group_members(inventory: Inventory) -> dict[str, list[str]]:
    """The hosts of every group, `all` among them, those of its children included."""
    children: dict[str, Any] = inventory["all"]["children"]

    def hosts(name: str) -> list[str]:
        body = children[name]
        found = list(body.get("hosts", {}))
        for child in body.get("children", {}):
            found += [host for host in hosts(child) if host not in found]
        return found

    groups = {name: hosts(name) for name in children}
    everyone = dict.fromkeys(host for members in groups.values() for host in members)
    return {"all": list(everyone), **groups}
