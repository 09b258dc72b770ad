"""Defaults and README tables of the roles, written by `python -m tests.documents.roles`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROLES = Path(__file__).resolve().parents[2] / "ansible" / "roles"
_TABLE = re.compile(r"(?<=<!-- variables -->\n).*?(?=<!-- /variables -->)", re.S)
_LONGEST_DEFAULT = 60


def names() -> list[str]:
    """The roles of the collection."""
    return sorted(path.name for path in ROLES.iterdir() if path.is_dir())


def options(role: str) -> dict[str, Any]:
    """Variable -> its specification, of all entry points: those of `main` first."""
    specs = yaml.safe_load((ROLES / role / "meta/argument_specs.yml").read_text(encoding="utf-8"))
    found: dict[str, Any] = {}
    for entry in sorted(specs["argument_specs"].items(), key=lambda item: item[0] != "main"):
        found = entry[1].get("options", {}) | found
    return found


def defaults(role: str) -> str:
    """The text of defaults/main.yml."""
    values = {name: option["default"] for name, option in options(role).items() if "default" in option}
    return "---\n" + yaml.dump(values, Dumper=_IndentedDumper, sort_keys=False, width=120)


def table(role: str) -> str:
    """README's table of variables in Markdown; a row a variable, and one for each key of its items."""
    rows = ["| variable | type | default | meaning |", "|---|---|---|---|"]
    rows += [f"| {' | '.join(row)} |" for row in _rows(options(role), "")]
    return "\n".join(rows) + "\n"


def page(role: str, text: str) -> str:
    """README with the table of the current argument_specs."""
    return _TABLE.sub(lambda _: table(role), text)


def _rows(specified: dict[str, Any], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    for name, option in specified.items():
        yield f"`{prefix}{name}`", kind_of(option), _default(option), meaning_of(option)
        inner = f"{prefix}{name}{'[]' if option['type'] == 'list' else ''}."
        yield from _rows(option.get("options", {}), inner)


def _default(option: dict[str, Any]) -> str:
    if option.get("required"):
        return "required"
    value = option.get("default")
    if value is None:
        return "-"
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    shown = text if len(text) <= _LONGEST_DEFAULT else "see defaults/main.yml"
    return f"`{shown}`" if shown is text else shown


def kind_of(option: dict[str, Any]) -> str:
    """The type of a variable, and of its items: `list of dict`."""
    return str(option["type"]) + (f" of {option['elements']}" if "elements" in option else "")


def meaning_of(option: dict[str, Any]) -> str:
    """Meaning and values of a variable, in Markdown."""
    text = option["description"]
    text = " ".join((text if isinstance(text, str) else " ".join(text)).split())
    text = re.sub(r"\b[CVOI]\(([^)]*)\)", r"`\1`", text)
    if "choices" in option:
        text += f" One of {', '.join(f'`{choice}`' for choice in option['choices'])}."
    return text.replace("|", "\\|")


class _IndentedDumper(yaml.SafeDumper):
    """Indent list items below their key, as ansible-lint requires."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless=False)

    def text(self, value: str) -> yaml.ScalarNode:
        """Templates and empty texts in double quotes, as in tasks."""
        style = '"' if not value or "{{" in value else None
        return self.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_IndentedDumper.add_representer(str, _IndentedDumper.text)


if __name__ == "__main__":
    for each in names():
        (ROLES / each / "defaults/main.yml").write_text(defaults(each), encoding="utf-8")
        readme = ROLES / each / "README.md"
        readme.write_text(page(each, readme.read_text(encoding="utf-8")), encoding="utf-8")
