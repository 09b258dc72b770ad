"""`extends:`: merges, replacements, and the origin of each value."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.errors import SpecError
from gpufleet.findings import Finding
from gpufleet.spec.load import LoadedFleet, load_fleet
from tests.unit.spec.samples import Checkout

BASE = """\
apiVersion: gpufleet/v1
fleet: atlas
budget: {monthly: 1000 USD, alerts: [50%, 90%]}
tags: {team: ml, cost-center: a, project: b}
cloud:
  - site: use1
    region: us-east-1
    zones: [us-east-1a, us-east-1b]
    network: {cidr: 10.0.0.0/16}
    node_groups:
      - name: serve
        instance_types: [g6.xlarge]
        capacity: {on_demand: {min: 1, max: 2}}
      - name: train
        instance_types: [g6.xlarge]
        capacity: {on_demand: {max: 1}}
software: {channel: 2026.11}
"""


def load(checkout: Checkout, over: str, base: str | None = BASE) -> LoadedFleet:
    if base is not None:
        checkout.write(base, "stacks/base.yaml")
    return checkout.load("extends: ../base.yaml\nenvironment: demo\n" + over)


def findings(checkout: Checkout, over: str, base: str | None = BASE) -> list[Finding]:
    with pytest.raises(SpecError) as caught:
        load(checkout, over, base)
    return list(caught.value.findings)


def test_mappings_merge_and_lists_replace(checkout: Checkout) -> None:
    spec = load(checkout, "budget: {alerts: [80%]}\ntags: {tier: gold}\n").spec
    assert str(spec.budget.monthly) == "1000 USD"
    assert [str(alert) for alert in spec.budget.alerts] == ["80%"]
    assert spec.tags == {"team": "ml", "cost-center": "a", "project": "b", "tier": "gold"}


def test_sites_and_groups_merge_by_name_and_new_ones_are_appended(checkout: Checkout) -> None:
    over = """\
cloud:
  - site: usw2
    region: us-west-2
    zones: [us-west-2a]
    network: {cidr: 10.1.0.0/16}
  - site: use1
    zones: [us-east-1a]
    node_groups:
      - {name: batch, instance_types: [g6.2xlarge], capacity: {on_demand: {max: 3}}}
      - {name: train, capacity: {on_demand: {max: 9}}}
"""
    spec = load(checkout, over).spec
    assert [site.site for site in spec.cloud] == ["use1", "usw2"]
    assert spec.cloud[0].zones == ("us-east-1a",)
    assert [group.name for group in spec.cloud[0].node_groups] == ["serve", "train", "batch"]
    train = spec.cloud[0].node_groups[1]
    assert train.capacity.on_demand is not None
    assert train.capacity.on_demand.max == 9
    assert train.instance_types == ("g6.xlarge",)


def test_null_removes_a_value_of_the_base(checkout: Checkout) -> None:
    over = (
        "cloud: [{site: use1, node_groups: [{name: serve, capacity: {on_demand: null, spot: {max: 2}}}]}]\n"
        "tags: {project: null, owner: c}\n"
    )
    spec = load(checkout, over).spec
    capacity = spec.cloud[0].node_groups[0].capacity
    assert capacity.on_demand is None
    assert capacity.spot is not None
    assert "project" not in spec.tags


def test_every_value_has_the_file_it_comes_from(checkout: Checkout) -> None:
    loaded = load(checkout, "cloud:\n  - site: use1\n    zones: [us-east-1a]\n")
    base, own = "stacks/base.yaml", "stacks/demo/fleet.yaml"
    assert loaded.source.at("cloud[0].region") == (base, 7)
    assert loaded.source.at("cloud[0].zones") == (own, 5)
    assert loaded.source.at("cloud[0].node_groups[1].name") == (base, 14)
    assert loaded.source.at("cloud[0]") == (own, 4)
    assert loaded.source.file == own


def test_invalid_value_of_the_base_is_reported_in_the_base(checkout: Checkout) -> None:
    (finding,) = findings(checkout, "", BASE.replace("max: 2", "max: two"))
    assert (finding.file, finding.line) == ("stacks/base.yaml", 13)
    assert finding.field == "cloud[0].node_groups[0].capacity.on_demand.max"


def test_findings_of_both_files_are_reported_together(checkout: Checkout) -> None:
    found = findings(checkout, "fleeet: x\n", BASE.replace("fleet: atlas", "fleet: Atlas\nfleet: other"))
    assert {(each.file, each.rule) for each in found} == {
        ("stacks/demo/fleet.yaml", "unknown-field"),
        ("stacks/base.yaml", "duplicate-key"),
        ("stacks/base.yaml", "bad-text"),
    }


def test_conflicting_kinds_from_two_files_have_a_remedy_to_remove_the_inherited_one(
    checkout: Checkout,
) -> None:
    over = "cloud: [{site: use1, node_groups: [{name: serve, capacity: {spot: {max: 2}}}]}]\n"
    (finding,) = findings(checkout, over)
    assert finding.rule == "exactly-one-of"
    assert "'on_demand: null'" in finding.remedy


def test_duplicate_name_in_the_extending_file_stays_a_duplicate(checkout: Checkout) -> None:
    over = """\
cloud:
  - {site: use1, zones: [us-east-1a]}
  - {site: use1, region: us-east-1, zones: [us-east-1b], network: {cidr: 10.9.0.0/16}}
"""
    assert [site.site for site in load(checkout, over).spec.cloud] == ["use1", "use1"]


def test_item_without_its_name_is_a_missing_field(checkout: Checkout) -> None:
    (finding,) = findings(
        checkout, "cloud: [{site: use1, node_groups: [{instance_types: [a], capacity: {spot: {max: 1}}}]}]\n"
    )
    assert (finding.rule, finding.field) == ("missing-field", "cloud[0].node_groups[2].name")
    assert finding.file == "stacks/demo/fleet.yaml"


def test_missing_base_is_named_with_the_nearest_file(checkout: Checkout) -> None:
    checkout.write(BASE, "stacks/base.yml")
    (finding,) = findings(checkout, "", None)
    assert (finding.rule, finding.line, finding.value) == ("extends-missing", 1, "../base.yaml")
    assert "base.yml" in finding.remedy


def test_base_that_extends_is_refused_at_its_line(checkout: Checkout) -> None:
    (finding,) = findings(checkout, "", BASE + "extends: other.yaml\n")
    assert (finding.rule, finding.file) == ("extends-chain", "stacks/base.yaml")
    assert finding.line == BASE.count("\n") + 1


def test_cycle_is_refused(checkout: Checkout) -> None:
    (finding,) = findings(checkout, "", "extends: demo/fleet.yaml\n")
    assert finding.rule == "extends-chain"
    assert checkout.only("extends: fleet.yaml\n").rule == "extends-cycle"
    assert checkout.only("extends: ../demo/../demo/fleet.yaml\n").rule == "extends-cycle"


@pytest.mark.parametrize(
    "value", ["[a.yaml, b.yaml]", "{a: b}", "''", "~", "/etc/passwd", "https://x/y.yaml", "..\\base.yaml"]
)
def test_extends_needs_one_relative_path(checkout: Checkout, value: str) -> None:
    assert checkout.only(f"extends: {value}\n").rule == "extends-path"


def test_extends_of_something_other_than_a_file_is_refused(checkout: Checkout) -> None:
    (checkout.root / "stacks" / "folder.yaml").mkdir(parents=True)
    for value in ("../folder.yaml", "../missing/base.yaml"):
        assert checkout.only(f"extends: {value}\n").rule == "extends-missing"


@pytest.mark.parametrize("value", ["..", "../..", "../base", "../base.json", "../../.git/config.yaml"])
def test_extends_needs_a_yaml_file_that_is_not_hidden(checkout: Checkout, value: str) -> None:
    checkout.write("a: [secret", f"stacks/demo/{value}") if value not in ("..", "../..") else None
    assert checkout.only(f"extends: {value}\n").rule == "extends-path"


def test_base_that_is_not_yaml_is_reported_in_the_base(checkout: Checkout) -> None:
    (finding,) = findings(checkout, "", "a: [1\n")
    assert (finding.rule, finding.file) == ("yaml-syntax", "stacks/base.yaml")
    (finding,) = findings(checkout, "", "")
    assert (finding.rule, finding.file) == ("file-empty", "stacks/base.yaml")


def test_base_is_found_from_any_working_folder(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load(checkout, "")
    monkeypatch.chdir(tmp_path / "stacks")
    assert load_fleet("demo/fleet.yaml", root=tmp_path).spec.fleet == "atlas"
