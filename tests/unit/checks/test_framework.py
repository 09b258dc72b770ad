"""All checks together: complete, documented, and all findings in one run."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pytest

from gpufleet.checks import ALL_CHECKS, PLANNED_CHECKS, Check, validate
from gpufleet.checks.rules import listed, nothing_bought
from gpufleet.errors import InputError, SpecError
from tests.unit.checks.fleets import NOW, Judge

EVERY = (*ALL_CHECKS, *PLANNED_CHECKS)


def test_valid_fleet_has_no_finding(judge: Judge) -> None:
    assert judge().rules == set()


@pytest.mark.parametrize("check", EVERY, ids=lambda check: check.rule)
def test_every_check_documents_its_reason(check: Check) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", check.rule)
    assert len(check.reason) > 40


def test_rules_are_unique() -> None:
    rules = [check.rule for check in EVERY]
    assert len(rules) == len(set(rules))


def test_all_errors_are_found_in_one_run_in_line_order(judge: Judge) -> None:
    reported = judge(
        {
            "cloud.0.region": "us-esat-1",
            "cloud.0.node_groups.0.instance_types": ["p5.48xlagre"],
            "onprem.0.system": "dgx-h1000",
            "software.channel": "2026.13",
            "tags": {"team": "ml"},
        }
    )
    assert {
        "region-known",
        "instance-type-known",
        "system-known",
        "channel-known",
        "required-tags",
    } <= reported.rules
    lines = [finding.line for finding in reported.findings]
    assert lines == sorted(lines)
    assert len(reported.of("required-tags")) == 2


def test_findings_of_the_fleet_file_come_before_those_of_its_base(judge: Judge, tmp_path: Path) -> None:
    judge({"cloud.0.network.cidr": "10.40.0.1/16", "onprem.0.system": "dgx-h1000"})
    file, base = tmp_path / "fleet.yaml", tmp_path / "base.yaml"
    file.rename(base)
    file.write_text("extends: base.yaml\nsoftware: {channel: '2026.13'}\n", encoding="utf-8")
    with pytest.raises(SpecError) as raised:
        validate(str(file), root=tmp_path, now=NOW)
    rules = [finding.rule for finding in raised.value.findings if finding.severity == "error"]
    assert rules == ["channel-known", "cidr-valid", "system-known"]


def test_finding_has_the_line_of_its_value(judge: Judge) -> None:
    finding = judge({"cloud.0.network.cidr": "10.40.0.1/16"}).only("cidr-valid")
    text = (judge.folder / "fleet.yaml").read_text(encoding="utf-8").splitlines()
    assert "10.40.0.1/16" in text[finding.line - 1]
    assert finding.value == "10.40.0.1/16"
    assert finding.file.endswith("fleet.yaml")


def test_validate_raises_with_errors_and_warnings(judge: Judge, tmp_path: Path) -> None:
    judge({"cloud.0.node_groups.0.network": "ena", "onprem.0.system": "dgx"})
    with pytest.raises(SpecError) as raised:
        validate(str(tmp_path / "fleet.yaml"), root=tmp_path, now=NOW)
    severities = {finding.rule: finding.severity for finding in raised.value.findings}
    assert severities["system-known"] == "error"
    assert severities["efa-off-in-training"] == "warning"
    assert raised.value.exit_code == 2


def test_validate_returns_warnings_and_the_catalog(judge: Judge, tmp_path: Path) -> None:
    judge({"cloud.0.node_groups.0.network": "ena"})
    validated = validate(str(tmp_path / "fleet.yaml"), root=tmp_path, catalog=judge.catalog, now=NOW)
    assert "efa-off-in-training" in {finding.rule for finding in validated.findings}
    assert validated.catalog is judge.catalog
    assert validated.loaded.spec.fleet == "atlas"


def test_validate_names_a_missing_environment(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no environment"):
        validate("nowhere", root=tmp_path)


@pytest.mark.parametrize("years", [0, 2, 10])
def test_valid_fleet_stays_valid_over_time(judge: Judge, years: int) -> None:
    reported = judge(now=NOW + dt.timedelta(days=366 * years))
    assert [finding for finding in reported.findings if finding.severity == "error"] == []


@pytest.mark.parametrize(
    ("days", "buys", "severity"),
    [(0, True, None), (5, True, "error"), (13, True, "error"), (5, False, "warning"), (13, False, "warning")],
)
def test_started_capacity_block_is_refused_if_it_would_be_bought(
    judge: Judge, days: int, buys: bool, severity: str | None
) -> None:
    start = (NOW + dt.timedelta(days=5)).date().isoformat()
    reported = judge(
        {"cloud.0.node_groups.1.capacity.reserved.capacity_block.start": start},
        now=NOW + dt.timedelta(days=days),
        bought=nothing_bought if buys else None,
    )
    assert [finding.severity for finding in reported.of("capacity-block-start")] == [severity] * bool(
        severity
    )


def test_list_states_how_many_items_it_leaves_out() -> None:
    assert listed(["a", "b"], limit=2) == "a, b"
    assert listed(["a", "b", "c"], limit=2) == "a, b and 1 more"
    assert listed(["a", "b", "c", "d"], limit=2) == "a, b and 2 more"
