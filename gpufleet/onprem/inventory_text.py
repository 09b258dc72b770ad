"""An inventory as the YAML that Ansible reads, and its groups as plain lists of hosts."""

from __future__ import annotations

from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import TaggedScalar

from gpufleet.onprem.inventory import Inventory

_HEADER = "# Written by `gpufleet inventory`. Change the fleet file, not this: the next run overwrites it.\n"
_TEMPLATE_MARKS = ("{{", "{%", "{#")


def render(inventory: Inventory) -> str:
    """The inventory as YAML text with a comment that says where it comes from."""
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    # No aliases: a reader of the file should find each value where it is used.
    yaml.representer.ignore_aliases = lambda _data: True
    text = StringIO()
    yaml.dump(_inert(inventory), text)
    return _HEADER + text.getvalue()


def _inert(value: Any) -> Any:
    """The value with template marks tagged `!unsafe`, so that Ansible takes a tag's text as text."""
    if isinstance(value, dict):
        return {key: _inert(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_inert(item) for item in value]
    if isinstance(value, str) and any(mark in value for mark in _TEMPLATE_MARKS):
        return TaggedScalar(value, style="'", tag="!unsafe")
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
