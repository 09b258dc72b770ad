"""YAML for Ansible and kubectl, which read YAML 1.1: a text `on` or `1:30` is quoted to stay text."""

from __future__ import annotations

from typing import Any

import yaml

from gpufleet.visible import ACTING


class Unsafe(str):
    """A text that Ansible must never treat as a template."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Block style, indented list items, values repeated where they are used."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent list items too."""
        del indentless
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        """Write no anchors: a reader of the file finds each value where it is used."""
        del data
        return True


def _unsafe(dumper: yaml.SafeDumper, value: Unsafe) -> yaml.ScalarNode:
    return dumper.represent_scalar("!unsafe", str(value), style="'")


_Dumper.add_representer(Unsafe, _unsafe)


def dump_yaml(document: Any) -> str:
    """Return the document as block-style YAML, keys in their order."""
    text = _dump(document, allow_unicode=True)
    # YAML allows bidirectional overrides and the like; then everything outside ASCII is escaped.
    return _dump(document, allow_unicode=False) if ACTING.search(text) else text


def _dump(document: Any, *, allow_unicode: bool) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=allow_unicode, width=4096)
