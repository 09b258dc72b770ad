"""`gpufleet rules` lists the pack and explains a rule; `gpufleet comment` reads CI variables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpufleet.cli.main import main
from gpufleet.policy.pack import load_rules

ROOT = Path(__file__).resolve().parents[3]


def test_all_rules_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    text = capsys.readouterr().out
    rules = load_rules(ROOT)
    assert all(rule.name in text for rule in rules)
    assert f"{len(rules)} rules" in text


def test_rule_is_explained_with_its_settings_and_its_exemption(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["rules", "imdsv2-required"]) == 0
    text = capsys.readouterr().out
    assert "hop_limit (integer, default 1)" in text
    assert "IMDSv2 needs 'required'" in text
    assert "  - rule: imdsv2-required\n" in text
    assert "kms-rotation" not in text


def test_json_list_equals_the_json_of_each_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["rules"]
    assert main(["rules", "imdsv2-required", "--json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert one in listed
    assert one["framework"]["control"] == "EC2.8"


def test_misspelt_rule_suggests_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "imdsv2-require"]) == 2
    assert "did you mean 'imdsv2-required'?" in capsys.readouterr().err


def test_comment_outside_ci_reports_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_REPOSITORY", "CI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)
    assert main(["comment", "prod", "verdict.md", "--json"]) == 2
    assert "GITHUB_REPOSITORY" in json.loads(capsys.readouterr().out)["error"]
