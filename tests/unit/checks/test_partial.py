"""Every finding in one run: an error in one part of the file neither hides nor causes those of others."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpufleet.catalog import Catalog
from gpufleet.checks import validate
from gpufleet.errors import InputError, SpecError
from gpufleet.findings import Finding
from tests.e2e.changes_racks import RACKS_AFTER
from tests.unit.checks.fleets import ALWAYS, FLEET, GONE, NOW, change
from tests.unit.spec.samples import ROOT
from tests.unit.spec.test_fuzz import replace_values

BROKEN = {
    "cloud.0.node_groups.1.capacity.reserved.capacity_block.duration": "soon",
    "cloud.0.node_groups.3.instance_types": "p4d.24xlarge",
    "cloud.0.storage.0.lustre.capacity": "24 TB",
    "cloud.0.storage.1.bucket.name": "Atlas_Data",
    "onprem.0.controllers": "ctl[01",
    "onprem.0.power.pue": "much",
    "onprem.0.ssh": {"user": "root; id"},
    "onprem.0.storage.0.kind": "smb",
    "budget.alerts": ["half"],
    "software.chanel": "2026.11",
}
"""Invalid fields, each in another part of the file."""

WRONG = {
    "cloud.0.region": ("us-east-7", "region-known"),
    "cloud.0.node_groups.0.instance_types": (["p5.49xlarge"], "instance-type-known"),
    "cloud.0.node_groups.2.capacity.reserved.odcr.zone": ("us-east-1f", "zone-in-site"),
    "onprem.0.bmc": ("bmc[001-007]", "bmc-count"),
    "onprem.0.fabric.speed": ("400gbe", "fabric-kind"),
    "budget.notify": (["finops@@example.com"], "budget-notify"),
    "tags.project": ("a#b", "tag-value"),
}
"""Valid fields that violate a rule."""


def findings(folder: Path, catalog: Catalog, changes: Mapping[str, Any]) -> list[Finding]:
    """The findings of a fleet file with changes, errors and warnings; empty if it is valid."""
    fleet = copy.deepcopy(FLEET)
    for path, value in changes.items():
        change(fleet, path, value)
    file = folder / "fleet.yaml"
    file.write_text(json.dumps(fleet, indent=1), encoding="utf-8")  # YAML, and fast to write
    try:
        return list(validate(str(file), root=folder, catalog=catalog, now=NOW).findings)
    except SpecError as error:
        return list(error.findings)


def dotted(field: str) -> str:
    return field.replace('["', ".").replace('"]', "").replace("[", ".").replace("]", "")


def test_file_with_an_error_in_each_part_reports_exactly_these(tmp_path: Path, catalog: Catalog) -> None:
    wrong = {path: value for path, (value, _) in WRONG.items() if path != "cloud.0.region"}
    found = findings(tmp_path, catalog, BROKEN | wrong)
    places = {dotted(each.field) for each in found if each.severity == "error"}
    missing = [path for path in BROKEN | wrong if not any(place.startswith(path) for place in places)]
    assert missing == []
    stray = [place for place in places if not any(place.startswith(path) for path in BROKEN | wrong)]
    assert stray == []
    assert [each.line for each in found] == sorted(each.line for each in found)


@pytest.mark.parametrize("broken", sorted(BROKEN))
@pytest.mark.parametrize("wrong", sorted(WRONG))
def test_invalid_field_hides_no_finding_of_another_part(
    tmp_path: Path, catalog: Catalog, broken: str, wrong: str
) -> None:
    value, rule = WRONG[wrong]
    reported = {each.rule for each in findings(tmp_path, catalog, {broken: BROKEN[broken], wrong: value})}
    assert rule in reported


@pytest.mark.parametrize("field", ["fabric.speed", "fabric.kind", "power.pue", "storage.0.kind", "scheduler"])
def test_invalid_choice_or_number_hides_no_finding_of_its_site(
    tmp_path: Path, catalog: Catalog, field: str
) -> None:
    wrong = {"onprem.0.power.per_rack": "40 MW", "onprem.0.bmc": "bmc[001-007]"}
    found = findings(tmp_path, catalog, {**wrong, f"onprem.0.{field}": "400"})
    assert {"rack-power", "bmc-count"} <= {each.rule for each in found}


def leaves(tree: Any, path: str = "") -> Iterator[str]:
    """The dotted paths of all values of a file, mappings and lists included."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        if "." in str(key):
            continue
        here = f"{path}.{key}".lstrip(".")
        yield here
        yield from leaves(value, here)


RICH = {
    # With a mirror a DOCA repository has no effect, which is a warning of its own.
    "onprem": [
        {key: value for key, value in site.items() if key != "package_mirror"} for site in RACKS_AFTER
    ],
    "budget.sites": {"use1": "900000 USD"},
    "budget.node_groups": {"use1/train": "800000 USD"},
    "budget.teams": {"research": "1000 USD"},
}
"""Changes for a fleet that sets every field of a rack, and refers to names of other parts."""


@pytest.mark.parametrize(
    ("value", "more"), [("$(id)", {}), (GONE, {}), ("$(id)", RICH)], ids=["hostile", "left out", "rich"]
)
def test_invalid_field_causes_no_finding_elsewhere(
    tmp_path: Path, catalog: Catalog, value: Any, more: Mapping[str, Any]
) -> None:
    fleet = copy.deepcopy(FLEET)
    for path, written in more.items():
        change(fleet, path, copy.deepcopy(written))
    strays = {}
    for path in leaves(fleet):
        found = findings(tmp_path, catalog, {**copy.deepcopy(dict(more)), path: value})
        if value is GONE and not any(each.rule in SHAPE for each in found):
            continue
        strays[path] = [
            f"{each.rule} at {each.field}"
            for each in found
            if each.rule not in ALWAYS
            and not dotted(each.field).startswith(path)
            and not path.startswith(dotted(each.field))
        ]
    assert {path: reported for path, reported in strays.items() if reported} == {}
    assert len(strays) > 20


SHAPE = {"missing-field", "exactly-one-of"}


def test_removed_item_does_not_shift_the_index_of_later_items(tmp_path: Path, catalog: Catalog) -> None:
    found = findings(
        tmp_path,
        catalog,
        {
            "cloud.0.node_groups.0.capacity": {"on_demand": {"max": "many"}},
            "cloud.0.node_groups.3.instance_types": ["p4d.25xlarge"],
        },
    )
    (finding,) = [each for each in found if each.rule == "instance-type-known"]
    assert finding.field == "cloud[0].node_groups[3].instance_types[0]"
    text = (tmp_path / "fleet.yaml").read_text(encoding="utf-8").splitlines()
    assert "p4d.25xlarge" in text[finding.line - 1]


@pytest.mark.parametrize("seed", range(3))
def test_rest_of_a_mutated_file_is_judged_without_a_traceback(
    tmp_path: Path, catalog: Catalog, seed: int
) -> None:
    dice = random.Random(seed)
    text = (ROOT / "stacks" / "sandbox" / "fleet.yaml").read_text(encoding="utf-8")
    outcomes = []
    for number in range(40):
        file = tmp_path / f"{number}.yaml"
        file.write_text(replace_values(text, dice), encoding="utf-8")
        try:
            validate(str(file), root=tmp_path, catalog=catalog, now=NOW)
            outcomes.append(0)
        except InputError as error:
            outcomes.append(len(getattr(error, "findings", ())))
    assert max(outcomes) > 5
