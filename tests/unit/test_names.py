"""A public class name stands for one thing in the whole source."""

import ast
from collections import defaultdict
from pathlib import Path

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


def test_no_public_class_name_is_in_two_modules_without_a_reason() -> None:
    assert set(_shared_names(ROOT)) - set(REASONS) == set()


def test_every_reason_is_still_needed() -> None:
    assert set(REASONS) - set(_shared_names(ROOT)) == set()


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


def _shared_names(root: Path) -> dict[str, list[str]]:
    """Name -> the files that define a public class of that name at their top level, if there are several."""
    found: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            where = path.relative_to(root).as_posix()
            if where.startswith(HANDLERS):
                continue
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(where)
    return {name: files for name, files in found.items() if len(files) > 1}
