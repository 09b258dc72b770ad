"""An inventory as the YAML that Ansible reads, and its groups as plain lists of hosts.

It is written here in the form that `dump_yaml` gives it, which a test compares: a YAML library takes minutes
for the millions of values of a hundred thousand hosts. What is not a plain text is left to `dump_yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from gpufleet.racks.inventory import Inventory
from gpufleet.yaml_text import Unsafe, dump_yaml

Progress = Callable[[int], None]
"""Receives how many entries of groups have been written, now and then."""

_HEADER = "# Written by `gpufleet inventory`. Change the fleet file, not this: the next run overwrites it.\n"
_TEMPLATE_MARKS = ("{{", "{%", "{#")
_HOSTS_DEPTH = 8
_AT_ONCE = 50_000
# Texts that YAML writes as they are: no number, no date and no word that means another value.
_PLAIN = re.compile(
    r"(?!(?i:yes|no|true|false|on|off|null)$)[A-Za-z][A-Za-z0-9_./-]{0,99}|\d{1,3}(?:\.\d{1,3}){3}"
)


def render(inventory: Inventory, progress: Progress | None = None) -> str:
    """The inventory as YAML text with a comment that says where it comes from."""
    writer = _Writer(progress or (lambda done: None))
    writer.mapping(inventory, "")
    return _HEADER + "".join(writer.lines)


class _Writer:
    """Block style, list items indented, as `dump_yaml`; what is no plain text is made once."""

    def __init__(self, progress: Progress) -> None:
        self.lines: list[str] = []
        self._progress = progress
        self._entries = 0
        self._made: dict[tuple[type, str], str] = {}

    def mapping(self, values: Mapping[str, Any], pad: str, first: str | None = None) -> None:
        """Render the entries at an indentation. `first` replaces the indentation of the first one."""
        for key, value in values.items():
            if len(pad) == _HOSTS_DEPTH:
                self._entries += 1
                if self._entries % _AT_ONCE == 0:
                    self._progress(self._entries)
            self._value(f"{first or pad}{self._scalar(key)}:", value, pad)
            first = None

    def _value(self, head: str, value: Any, pad: str) -> None:
        if isinstance(value, dict) and value:
            self.lines.append(f"{head}\n")
            self.mapping(value, f"{pad}  ")
        elif isinstance(value, list) and value:
            self.lines.append(f"{head}\n")
            self._sequence(value, f"{pad}  ")
        else:
            self.lines.append(f"{head} {self._scalar(value)}\n")

    def _sequence(self, values: Sequence[Any], pad: str) -> None:
        for value in values:
            if isinstance(value, dict) and value:
                self.mapping(value, f"{pad}  ", f"{pad}- ")
            elif isinstance(value, list) and value:
                text = dump_yaml([_inert(value)])
                self.lines += [pad + line for line in text.splitlines(keepends=True)]
            else:
                self.lines.append(f"{pad}- {self._scalar(value)}\n")

    def _scalar(self, value: Any) -> str:
        if type(value) is str and _PLAIN.fullmatch(value):
            return value
        same = type(value), repr(value)
        if same not in self._made:
            self._made[same] = _one_line(value)
        return self._made[same]


def _one_line(value: Any) -> str:
    """Render the value of a key. A multi-line text is in double quotes with escaped line feeds."""
    text = dump_yaml({"k": _inert(value)}).removeprefix("k: ").removesuffix("\n")
    if "\n" not in text:
        return text
    tag = "!unsafe " if isinstance(_inert(value), Unsafe) else ""
    return tag + str(yaml.dump(str(value), default_style='"', width=len(value) * 10)).removesuffix("\n")


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

    def hosts(name: str) -> dict[str, None]:
        body = children[name]
        found = dict.fromkeys(body.get("hosts", {}))
        for child in body.get("children", {}):
            found.update(hosts(child))
        return found

    groups = {name: list(hosts(name)) for name in children}
    everyone = dict.fromkeys(host for members in groups.values() for host in members)
    return {"all": list(everyone), **groups}
