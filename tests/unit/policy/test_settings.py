"""Which level and settings a rule has in one run: its own, the fleet file's, then Pulumi's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpufleet.errors import SpecError
from gpufleet.findings import Finding
from gpufleet.policy.rule import Rule
from gpufleet.policy.settings import ConfiguredRule, PackConfig, configure
from gpufleet.spec.load import LoadedFleet, load_fleet
from tests.bench.generate import fleet_file
from tests.unit.policy.samples import few_boxes, small_boxes

RULES: tuple[Rule[Any], ...] = (small_boxes(), few_boxes())


def fleet(folder: Path, policies: str = "", exemptions: str = "") -> LoadedFleet:
    """A fleet file with these policies and exemptions, one a line."""
    path = folder / "fleet.yaml"
    path.write_text(fleet_file(1) + policies + exemptions, encoding="utf-8")
    return load_fleet(str(path), root=folder)


def one(
    loaded: LoadedFleet | None = None, config: dict[str, PackConfig] | None = None, rule: Rule[Any] = RULES[0]
) -> ConfiguredRule:
    spec, source = (loaded.spec, loaded.source) if loaded else (None, None)
    return {each.rule.name: each for each in configure([rule, RULES[1]], spec, source, config)}["small-boxes"]


def findings(loaded: LoadedFleet | None = None, config: dict[str, PackConfig] | None = None) -> list[Finding]:
    spec, source = (loaded.spec, loaded.source) if loaded else (None, None)
    with pytest.raises(SpecError) as caught:
        configure(RULES, spec, source, config)
    return list(caught.value.findings)


def line_of(folder: Path, text: str) -> int:
    lines = (folder / "fleet.yaml").read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


FILE = "policies:\n  small-boxes: {enforcement: advisory, settings: {most: 20}}\n"


def test_rule_has_its_own_level_and_defaults() -> None:
    found = one()
    assert found.enforcement == "mandatory"
    assert found.settings.model_dump() == {"most": 10}
    assert one(rule=small_boxes(enforcement="advisory")).enforcement == "advisory"


def test_fleet_file_overrides_the_rule(tmp_path: Path) -> None:
    found = one(fleet(tmp_path, FILE))
    assert found.enforcement == "advisory"
    assert found.settings.model_dump() == {"most": 20}


def test_pulumi_configuration_overrides_the_fleet_file(tmp_path: Path) -> None:
    loaded = fleet(tmp_path, FILE)
    found = one(loaded, {"small-boxes": PackConfig("mandatory", {"most": 30})})
    assert found.enforcement == "mandatory"
    assert found.settings.model_dump() == {"most": 30}
    half = one(loaded, {"small-boxes": PackConfig(None, {"most": 30})})
    assert half.enforcement == "advisory"


def test_all_applies_to_every_rule_that_is_not_named(tmp_path: Path) -> None:
    loaded = fleet(tmp_path, FILE)
    everything = {"all": PackConfig("disabled")}
    assert one(loaded, everything).enforcement == "disabled"
    assert one(loaded, {**everything, "small-boxes": PackConfig("mandatory")}).enforcement == "mandatory"


def test_all_remediate_makes_a_rule_without_remediation_mandatory() -> None:
    assert one(config={"all": PackConfig("remediate")}).enforcement == "remediate"


def test_rule_without_remediation_cannot_be_set_to_remediate_by_name(tmp_path: Path) -> None:
    loaded = fleet(tmp_path, "policies:\n  small-boxes: {enforcement: remediate}\n")
    (found,) = findings(loaded)
    assert found.rule == "policy-enforcement"
    assert found.line == line_of(tmp_path, "small-boxes")
    mending = small_boxes(remediate=lambda resource, context: None)
    assert one(loaded, rule=mending).enforcement == "remediate"


def test_all_findings_are_reported_at_once_with_their_lines(tmp_path: Path) -> None:
    loaded = fleet(
        tmp_path,
        "policies:\n"
        "  smal-boxes: {enforcement: advisory}\n"
        "  small-boxes:\n"
        "    settings:\n"
        "      most: many\n"
        "      least: 1\n",
        "exemptions:\n  - {rule: few-boxs, resource: stack, reason: r, approver: a, expires: 2031-01-01}\n",
    )
    found = {each.field: each for each in findings(loaded)}
    assert found.keys() == {
        "policies.smal-boxes",
        "exemptions[0].rule",
        "policies.small-boxes.settings.most",
        "policies.small-boxes.settings.least",
    }
    assert "did you mean 'small-boxes'?" in found["policies.smal-boxes"].remedy
    assert "did you mean 'few-boxes'?" in found["exemptions[0].rule"].remedy
    for path, text in (
        ("policies.smal-boxes", "smal-boxes:"),
        ("exemptions[0].rule", "few-boxs"),
        ("policies.small-boxes.settings.most", "most:"),
        ("policies.small-boxes.settings.least", "least:"),
    ):
        assert found[path].line == line_of(tmp_path, text), path
    wrong = found["policies.small-boxes.settings.most"]
    assert wrong.value == "many"
    assert "most (Largest size)" in wrong.remedy


def test_setting_out_of_range_is_found(tmp_path: Path) -> None:
    (found,) = findings(fleet(tmp_path, "policies:\n  small-boxes: {settings: {most: 0}}\n"))
    assert found.rule == "policy-setting"
    assert "greater than or equal to 1" in found.message


def test_error_in_the_pulumi_configuration_is_not_reported_for_the_fleet_file(tmp_path: Path) -> None:
    (found,) = findings(fleet(tmp_path, FILE), {"small-boxes": PackConfig(None, {"most": "many"})})
    assert found.file == "policy configuration"
    (unknown,) = findings(config={"none-such": PackConfig("advisory")})
    assert unknown.rule == "policy-rule-name"
