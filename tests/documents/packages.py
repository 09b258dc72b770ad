"""CONTRIBUTING's table of packages, written from the contracts by `python -m tests.documents.packages`."""

from __future__ import annotations

import ast
import re
from configparser import ConfigParser
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
CONTRACTS = ROOT / ".importlinter"
_TABLE = re.compile(r"(?<=<!-- packages -->\n).*?(?=<!-- /packages -->)", re.S)


def packages() -> dict[str, Path]:
    """Name -> file with the docstring: every package of gpufleet, and the modules that have contracts."""
    found = {file.parent.name: file for file in (ROOT / "gpufleet").glob("*/__init__.py")}
    modules = {name: ROOT / f"gpufleet/{name}.py" for name in importers() if name not in found}
    return found | modules


def importers() -> dict[str, set[str]]:
    """Package -> the packages that may import it, as its contract says."""
    contracts = ConfigParser()
    contracts.read(CONTRACTS)
    found = {}
    for section in contracts.sections():
        protected = contracts.get(section, "protected_modules", fallback="").split()
        for name in (each.split(".")[1] for each in protected if each.startswith("gpufleet.")):
            allowed = contracts.get(section, "allowed_importers").split()
            found[name] = {each.split(".")[1] for each in allowed} - {name}
    return found


def imports() -> dict[str, set[str]]:
    """Package -> the packages that it may import."""
    found: dict[str, set[str]] = {name: set() for name in importers()}
    for imported, names in importers().items():
        for name in names:
            found[name].add(imported)
    return found


def table() -> str:
    """The table in Markdown; a package stands above those that it imports."""
    below = {name: sorted(names) for name, names in sorted(imports().items())}
    order = [*TopologicalSorter(below).static_order()]
    rows = ["| package | what it is for | may import |", "|---|---|---|"]
    for name in reversed(order):
        names = ", ".join(sorted(below[name], key=order.index, reverse=True)) or "-"
        rows.append(f"| `{_folder(name)}` | {_purpose(packages()[name])} | {names} |")
    return "\n".join(rows) + "\n"


def page(text: str) -> str:
    """CONTRIBUTING with the current table."""
    return _TABLE.sub(lambda _: table(), text)


def _folder(name: str) -> str:
    """As written in the checkout: some packages are links to top-level folders."""
    place = ROOT / "gpufleet" / name
    if place.is_symlink():
        return name
    return f"gpufleet/{name}" if place.is_dir() else f"gpufleet/{name}.py"


def _purpose(file: Path) -> str:
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split()).rstrip(".")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
