"""Remedies of invalid fields: each that a program can apply is applied and validated."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.catalog import Catalog
from gpufleet.checks import validate
from gpufleet.errors import SpecError
from gpufleet.findings import Finding
from gpufleet.spec.fixes import Fix, fixes
from gpufleet.spec.paths import field_path
from tests.unit.checks.fleets import FLEET, NOW, change
from tests.unit.spec.remedies import useless

NEAR_MISSES = {
    "upper case": str.upper,
    "no unit": lambda text: text.split(" ")[0],
    "decimal unit": lambda text: text.replace("iB", "B"),
    "blank": lambda text: f"{text} x",
    "empty": lambda text: "",
    "cut": lambda text: text[:-1],
    "doubled": lambda text: text + text,
    "underscore": lambda text: f"{text}_1",
}
"""Typical invalid values."""


def judged(folder: Path, catalog: Catalog, fleet: Any) -> list[Finding]:
    file = folder / "fleet.yaml"
    file.write_text(yaml.safe_dump(fleet, sort_keys=False), encoding="utf-8")
    try:
        return list(validate(str(file), root=folder, catalog=catalog, now=NOW).findings)
    except SpecError as error:
        return list(error.findings)


def texts(tree: Any, path: str = "") -> Iterator[tuple[str, str]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        here = f"{path}.{key}".lstrip(".")
        if isinstance(value, (dict, list)):
            yield from texts(value, here)
        elif not isinstance(value, bool):
            yield here, str(value)


@pytest.mark.parametrize("miss", sorted(NEAR_MISSES))
def test_applying_the_remedy_removes_the_finding(tmp_path: Path, catalog: Catalog, miss: str) -> None:
    failed = []
    tried = 0
    whole = copy.deepcopy(FLEET)
    # A team with another name is another team: references to the old one must change too.
    del whole["cloud"][0]["node_groups"][0]["team"]
    for path, text in texts(whole):
        fleet = copy.deepcopy(whole)
        change(fleet, path, NEAR_MISSES[miss](text))
        found = judged(tmp_path, catalog, fleet)
        tried += sum(len(fixes(each)) for each in found)
        failed += useless(fleet, found, lambda tree: judged(tmp_path, catalog, tree))
    assert failed == []
    assert tried or miss in ("blank", "cut", "decimal unit", "doubled", "empty", "no unit")


@pytest.mark.parametrize("field", ["controllers", "login", "bmc"])
@pytest.mark.parametrize("value", [None, {"a": "b"}, "x["])
def test_gpu_nodes_are_not_suggested_for_other_roles(
    tmp_path: Path, catalog: Catalog, field: str, value: Any
) -> None:
    fleet = copy.deepcopy(FLEET)
    fleet["onprem"][0][field] = value
    found = [each for each in judged(tmp_path, catalog, fleet) if each.field == f"onprem[0].{field}"]
    assert all("dgx" not in each.remedy for each in found)
    assert useless(fleet, found, lambda tree: judged(tmp_path, catalog, tree)) == []


@pytest.mark.parametrize("size", ["10 TB", "24 TB", "1 TB", "2 TB", "900 GB"])
def test_decimal_size_of_a_file_system_gets_a_valid_fsx_size(
    tmp_path: Path, catalog: Catalog, size: str
) -> None:
    fleet = copy.deepcopy(FLEET)
    fleet["cloud"][0]["storage"][0]["lustre"]["capacity"] = size
    (finding,) = [each for each in judged(tmp_path, catalog, fleet) if each.severity == "error"]
    offered = finding.remedy.split("'")[1]
    fleet["cloud"][0]["storage"][0]["lustre"]["capacity"] = offered
    assert not any(each.severity == "error" for each in judged(tmp_path, catalog, fleet))


@pytest.mark.parametrize(("kind", "speed"), [("infiniband", "400"), ("infiniband", "ndr400"), ("roce", "nd")])
def test_speeds_of_the_other_fabric_type_are_not_suggested(
    tmp_path: Path, catalog: Catalog, kind: str, speed: str
) -> None:
    fleet = copy.deepcopy(FLEET)
    fleet["onprem"][0]["fabric"] = {"kind": kind, "speed": speed}
    (finding,) = [each for each in judged(tmp_path, catalog, fleet) if each.severity == "error"]
    assert ("gbe" in finding.remedy) == (kind == "roce")


def test_no_address_is_suggested_twice(tmp_path: Path, catalog: Catalog) -> None:
    fleet = copy.deepcopy(FLEET)
    site = fleet["onprem"][0]
    del site["network"]
    fleet["onprem"] = [
        {
            **copy.deepcopy(site),
            "site": f"dc{n}",
            "network": "10.40.0.0/16",
            "nodes": f"n{n}-[01-08]",
            "bmc": f"b{n}-[01-08]",
            "controllers": f"c{n}",
            "login": f"l{n}",
        }
        for n in range(3)
    ]
    found = [each for each in judged(tmp_path, catalog, fleet) if each.rule == "cidr-overlap"]
    offered = {(each.field, fix.value) for each in found for fix in fixes(each)}
    assert len({field for field, _ in offered}) == 3
    assert len({value for _, value in offered}) == 3


def test_remedy_names_the_field_and_its_value() -> None:
    def of(field: str, remedy: str) -> list[tuple[str, Any]]:
        finding = Finding("f", 1, field, "x", "r", "m", remedy)
        return [(fix.field, fix.value) for fix in fixes(finding)]

    speed = "onprem[0].fabric.speed"
    assert of(speed, "write 'kind: roce', or 'speed: ndr'") == [
        ("onprem[0].fabric.kind", "roce"),
        (speed, "ndr"),
    ]
    assert of("cloud[0].zones", "write 'zones: [us-east-1a]'") == [("cloud[0].zones", ["us-east-1a"])]
    assert of(speed, "did you mean 'ndr'? It takes hdr, such as 'xdr'") == []
    assert of("cloud[0].region", "write 'region: ...'") == []
    assert Fix(field_path(("a", 0)), "b") == Fix("a[0]", "b")
