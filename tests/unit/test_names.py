"""A public class name stands for one thing in the whole source."""

import ast
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("gpufleet", "components", "stacks", "policies")
HANDLERS = "gpufleet/lab/aws/provider/resources"
"""A handler of the emulated AWS has the name of the Pulumi resource that it creates."""

_BUILT = "the component that builds what the fleet file's section of that name declares"
_PROTOCOL = "both ends of one protocol: the provider raises it, and the engine receives it"
REASONS = {
    "Bucket": _BUILT,
    "CapacityBlock": _BUILT,
    "NodeGroup": _BUILT,
    "OnDemandReservation": _BUILT,
    "OrderedCapacity": _BUILT,
    "SlurmServers": _BUILT,
    "InitFailedError": _PROTOCOL,
    "UnknownOutcomeError": _PROTOCOL,
}
"""Names that stand in two modules, and why."""

ROLES = sorted((ROOT / "ansible" / "roles").glob("*/files"))
ANSIBLE_NAMES = {"ActionModule", "FilterModule"}
"""Names by which Ansible finds the class of a plugin."""


def test_no_public_class_name_is_in_two_modules_without_a_reason() -> None:
    assert set(_shared_names(ROOT)) - set(REASONS) == set()


def test_every_reason_is_still_needed() -> None:
    assert set(REASONS) - set(_shared_names(ROOT)) == set()


@pytest.mark.parametrize("folder", [ROOT / "ansible/plugins", *ROLES], ids=lambda each: each.parent.name)
def test_collection_and_each_program_of_a_role_have_a_class_name_once(folder: Path) -> None:
    """They run on a host, each without the others."""
    assert set(_shared_names(folder.parent, (folder.name,))) - ANSIBLE_NAMES == set()


def test_duplicate_public_class_is_found_and_a_private_one_is_not(tmp_path: Path) -> None:
    for name, text in (
        ("gpufleet/a.py", "class Rate: ..."),
        ("policies/b.py", "class Rate: ...\nclass _Own: ..."),
        ("gpufleet/c.py", "class _Own: ..."),
        (f"{HANDLERS}/d.py", "class Budget: ..."),
        ("gpufleet/e.py", "class Budget: ..."),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert _shared_names(tmp_path) == {"Rate": ["gpufleet/a.py", "policies/b.py"]}


def _shared_names(root: Path, packages: Sequence[str] = PACKAGES) -> dict[str, list[str]]:
    """Name -> the files that define a public class of that name at their top level, if there are several."""
    found: dict[str, list[str]] = defaultdict(list)
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            where = path.relative_to(root).as_posix()
            if where.startswith(HANDLERS):
                continue
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(where)
    return {name: files for name, files in found.items() if len(files) > 1}
