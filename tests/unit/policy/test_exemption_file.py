"""Exemptions in a file beside the fleet file."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from gpufleet.errors import InputError, SpecError
from gpufleet.findings import Finding
from gpufleet.policy.exemption_file import with_exemption_file
from gpufleet.policy.fleet import NOW, moment, open_stack
from gpufleet.policy.settings import configure
from gpufleet.spec.load import LoadedFleet, load_fleet

FLEET = """\
apiVersion: gpufleet/v1
fleet: atlas
environment: prod
budget: { monthly: 10 USD }
tags: { team: a, cost-center: b, project: c }
software: { channel: 2026.11 }
"""
ENTRY = "{ rule: a-rule, resource: x, reason: r, approver: me, expires: 2031-01-31 }"


def _load(tmp_path: Path, beside: str | None, fleet: str = FLEET) -> LoadedFleet:
    folder = tmp_path / "stacks" / "prod"
    folder.mkdir(parents=True)
    (folder / "fleet.yaml").write_text(fleet)
    if beside is not None:
        (folder / "exemptions.yaml").write_text(beside)
    return with_exemption_file(load_fleet("prod", root=tmp_path), tmp_path)


def _findings(tmp_path: Path, beside: str) -> tuple[Finding, ...]:
    with pytest.raises(SpecError) as error:
        _load(tmp_path, beside)
    return error.value.findings


def test_fleet_is_unchanged_without_the_file(tmp_path: Path) -> None:
    assert _load(tmp_path, None).spec.exemptions == ()


def test_exemptions_of_the_file_follow_those_of_the_fleet_with_their_own_places(
    tmp_path: Path,
) -> None:
    own = f"{FLEET}exemptions:\n  - {ENTRY}\n"
    loaded = _load(tmp_path, f"# why\nexemptions:\n  - {ENTRY.replace('a-rule', 'b-rule')}\n", own)
    assert [each.rule for each in loaded.spec.exemptions] == ["a-rule", "b-rule"]
    assert loaded.spec.exemptions[1].expires == dt.date(2031, 1, 31)
    assert loaded.source.at("exemptions[0].rule") == ("stacks/prod/fleet.yaml", 8)
    assert loaded.source.at("exemptions[1].rule") == ("stacks/prod/exemptions.yaml", 3)
    assert loaded.source.at("budget.monthly") == ("stacks/prod/fleet.yaml", 4)


def test_fleet_without_exemptions_uses_those_of_the_file(tmp_path: Path) -> None:
    loaded = _load(tmp_path, f"exemptions:\n  - {ENTRY}\n")
    assert loaded.source.at("exemptions[0]") == ("stacks/prod/exemptions.yaml", 2)


def test_policy_pack_sees_the_same_exemptions(tmp_path: Path) -> None:
    _load(tmp_path, f"exemptions: [{ENTRY}]\n")
    fleet = open_stack(tmp_path, "gpufleet", "prod", {}, preview=True)
    assert fleet.shared.spec is not None
    assert [each.rule for each in fleet.shared.spec.exemptions] == ["a-rule"]


def test_unknown_rule_is_a_finding_in_the_exemption_file(tmp_path: Path) -> None:
    loaded = _load(tmp_path, f"exemptions:\n  - {ENTRY}\n")
    with pytest.raises(SpecError) as error:
        configure((), loaded.spec, loaded.source)
    (finding,) = error.value.findings
    assert (finding.file, finding.line, finding.rule) == (
        "stacks/prod/exemptions.yaml",
        2,
        "policy-rule-name",
    )


@pytest.mark.parametrize(
    ("entry", "rule", "field"),
    [
        (
            "{ rule: a, resource: x, reason: r, expires: 2031-01-31 }",
            "missing-field",
            "exemptions[0].approver",
        ),
        (ENTRY.replace("2031-01-31", "soon"), "date", "exemptions[0].expires"),
        (ENTRY.replace("2031-01-31", "2031-02-30"), "date", "exemptions[0].expires"),
        (ENTRY.replace("reason:", "raison:"), "unknown-field", "exemptions[0].raison"),
        (ENTRY.replace("resource: x", "resource: '*'"), "exemption-too-wide", "exemptions[0].resource"),
        ("just text", "wrong-type", "exemptions[0]"),
    ],
)
def test_malformed_entry_is_a_finding_with_its_line(
    tmp_path: Path, entry: str, rule: str, field: str
) -> None:
    findings = _findings(tmp_path, f"exemptions:\n  - {entry}\n")
    assert (rule, field) in {(finding.rule, finding.field) for finding in findings}
    assert {(finding.file, finding.line) for finding in findings} == {("stacks/prod/exemptions.yaml", 2)}
    assert all(finding.remedy for finding in findings)


@pytest.mark.parametrize(
    "text", ["", "\n", "- a\n", "exemptions: [\n", "exempt: []\n", "exemptions: x\n", "\tx\n"]
)
def test_file_without_exemptions_is_a_finding_that_names_the_file(tmp_path: Path, text: str) -> None:
    findings = _findings(tmp_path, text)
    assert {finding.file for finding in findings} == {"stacks/prod/exemptions.yaml"}
    assert not any("fleet file" in finding.message or "apiVersion" in finding.remedy for finding in findings)


def test_current_time_comes_from_the_environment_or_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NOW, "2031-05-01T10:00:00+02:00")
    assert moment() == dt.datetime(2031, 5, 1, 8, tzinfo=dt.UTC)
    monkeypatch.setenv(NOW, "2031-05-01")
    assert moment() == dt.datetime(2031, 5, 1, tzinfo=dt.UTC)
    monkeypatch.setenv(NOW, "")
    assert abs(moment() - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=1)
    monkeypatch.setenv(NOW, "tomorrow")
    with pytest.raises(InputError, match="not a date and time"):
        moment()
