"""`extends:` one other file: a deep merge that keeps the place of every value.

Mappings merge. Lists of things that have a name (sites by `site`; node groups, storage and teams by
`name`) merge by it, and new ones are added at the end. Other lists and scalars replace. `null`
removes what the other file says.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

from gpufleet.containment import YAML_SUFFIXES, OutsideError, contained
from gpufleet.errors import InputError, SpecError
from gpufleet.findings import Finding
from gpufleet.spec.document import read_document
from gpufleet.spec.nodes import Entry, Node

NAMED_BY = {
    "cloud": "site",
    "onprem": "site",
    "node_groups": "name",
    "ordered_capacity": "name",
    "storage": "name",
    "teams": "name",
}


def extend(
    root: Entry, path: Path, show: Callable[[Path], str], *, within: Path
) -> tuple[Entry, list[Finding]]:
    """`root` merged over the file that its `extends:` names, and the findings of that file.

    Without `extends:` it is `root` itself. `show` gives the name of a file in findings. Raises
    `SpecError` when the file is missing, is no fleet file, lies outside of the folder `within`, or
    extends yet another one.
    """
    fields = root.node.value
    if not isinstance(fields, dict) or "extends" not in fields:
        return root, []
    entry = fields["extends"]
    base_path = _target(entry, path, within)
    try:
        base, findings = read_document(base_path, show(base_path), within=within)
    except InputError as error:
        if isinstance(error, SpecError):
            raise
        near = get_close_matches(base_path.name, _neighbours(base_path), n=1)
        remedy = f"did you mean '{near[0]}'?" if near else "write the path relative to this file"
        raise _refusal(entry, "extends-missing", error.message, remedy) from None
    inner = base.node.value
    if isinstance(inner, dict) and "extends" in inner:
        raise _refusal(
            inner["extends"],
            "extends-chain",
            f"{base.file} is extended by {root.file} and extends another file itself; one level is allowed",
            "move what both need into one base file",
        )
    own = {key: value for key, value in fields.items() if key != "extends"}
    merged = merge(base.node, Node(own))
    return Entry(root.file, root.line, merged), findings


def merge(base: Node, over: Node, key: str = "") -> Node:
    """`over` on top of `base`; neither is changed. `key` is the field's name, for named lists."""
    if isinstance(base.value, dict) and isinstance(over.value, dict):
        fields = dict(base.value)
        for name, entry in over.value.items():
            below = fields.get(name)
            if below is None:
                fields[name] = entry
            elif entry.node.value is None:
                del fields[name]
            else:
                fields[name] = Entry(entry.file, entry.line, merge(below.node, entry.node, name))
        return Node(fields)
    if isinstance(base.value, list) and isinstance(over.value, list) and key in NAMED_BY:
        return Node(_merge_named(base.value, over.value, NAMED_BY[key]))
    return over


def _merge_named(base: list[Entry], over: list[Entry], by: str) -> list[Entry]:
    items = list(base)
    places: dict[str, int] = {}
    for index, entry in enumerate(base):
        name = _name(entry, by)
        if name is not None:
            places.setdefault(name, index)
    for entry in over:
        # A name that comes twice in one file stays twice, so that the duplicate is found.
        place = places.pop(_name(entry, by) or "", None)
        if place is None:
            items.append(entry)
        else:
            items[place] = Entry(entry.file, entry.line, merge(items[place].node, entry.node))
    return items


def _name(entry: Entry, by: str) -> str | None:
    value = entry.node.value
    name = value[by].node.value if isinstance(value, dict) and by in value else None
    return name if isinstance(name, str) else None


def _target(entry: Entry, path: Path, within: Path) -> Path:
    value = entry.node.value
    if not isinstance(value, str) or not value:
        raise _refusal(entry, "extends-path", "extends names one file", "write 'extends: ../base.yaml'")
    if Path(value).is_absolute() or "://" in value or "\\" in value:
        raise _refusal(
            entry, "extends-path", "extends is a path relative to this file", "write 'extends: ../base.yaml'"
        )
    target = path.parent / value
    names = [part for part in Path(value).parts if part != ".."]
    if target.suffix not in YAML_SUFFIXES or any(name.startswith(".") for name in names):
        raise _refusal(
            entry,
            "extends-path",
            "extends names a YAML file that is not hidden",
            "name a file that ends in .yaml, as in 'extends: ../base.yaml'",
        )
    try:
        real = contained(target, value, within=within)
    except OutsideError:
        raise _refusal(
            entry,
            "extends-outside",
            f"a fleet file extends YAML files in {within} only",
            "move what it needs there, or name a file there, as in 'extends: ../base.yaml'",
        ) from None
    except InputError as error:
        raise _refusal(entry, "extends-path", error.message, "write 'extends: ../base.yaml'") from None
    if real == path.resolve():
        raise _refusal(
            entry, "extends-cycle", "the file extends itself", "remove 'extends:', or name another file"
        )
    return target


def _neighbours(path: Path) -> list[str]:
    try:
        return sorted(child.name for child in path.parent.iterdir() if child.suffix in {".yaml", ".yml"})
    except OSError:
        return []


def _refusal(entry: Entry, rule: str, message: str, remedy: str) -> SpecError:
    return SpecError(
        [
            Finding(
                file=entry.file,
                line=entry.line,
                field="extends",
                value=entry.node.plain(),
                rule=rule,
                message=message,
                remedy=remedy,
            )
        ]
    )
