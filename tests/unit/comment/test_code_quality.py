"""GitLab's Code Quality report has the contents of the verdict."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpufleet.comment.code_quality import code_quality, main
from gpufleet.errors import InputError


def _violation(effect: str, **more: Any) -> dict[str, Any]:
    return {
        "resource": "urn:pulumi:prod::gpufleet::aws:ec2/launchTemplate:LaunchTemplate::lt",
        "message": "httpTokens is 'optional'",
        "file": "stacks/prod/fleet.yaml",
        "line": 12,
        "effect": effect,
        **more,
    }


VERDICT: dict[str, Any] = {
    "environment": "prod",
    "fleet_file": "stacks/prod/fleet.yaml",
    "rules": [
        {
            "name": "imdsv2-required",
            "violations": [_violation("mandatory"), _violation("exempted"), _violation("advisory")],
        },
        {
            "name": "monthly-budget",
            "violations": [_violation("mandatory", resource="stack", file="", line=0)],
        },
        {"name": "nothing-found", "violations": []},
    ],
}


def test_violations_are_reported_at_their_line_and_exempted_ones_are_not() -> None:
    found = code_quality(VERDICT)
    assert [(each["check_name"], each["severity"]) for each in found] == [
        ("imdsv2-required", "critical"),
        ("imdsv2-required", "minor"),
        ("monthly-budget", "critical"),
    ]
    assert found[0]["location"] == {"path": "stacks/prod/fleet.yaml", "lines": {"begin": 12}}
    assert found[0]["description"] == "prod: httpTokens is 'optional'"


def test_violation_without_a_line_is_at_the_top_of_the_fleet_file() -> None:
    assert code_quality(VERDICT)[-1]["location"] == {"path": "stacks/prod/fleet.yaml", "lines": {"begin": 1}}


def test_fingerprints_are_unique_and_survive_a_moved_line() -> None:
    before = [each["fingerprint"] for each in code_quality(VERDICT)]
    moved = copy.deepcopy(VERDICT)
    for rule in moved["rules"]:
        for violation in rule["violations"]:
            violation["line"] += 5
    assert [each["fingerprint"] for each in code_quality(moved)] == before
    assert len(set(before)) == len(before)


def test_module_writes_json(tmp_path: Path) -> None:
    (tmp_path / "verdict.json").write_text(json.dumps(VERDICT))
    done = subprocess.run(
        [sys.executable, "-m", "gpufleet.comment.code_quality", str(tmp_path / "verdict.json")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == code_quality(VERDICT)


def _forged(**changes: object) -> dict[str, object]:
    violation = {
        "effect": "mandatory",
        "resource": "r",
        "message": "m",
        "file": "f.yaml",
        "line": 3,
        **changes,
    }
    return {
        "environment": "prod",
        "fleet_file": "stacks/prod/fleet.yaml",
        "rules": [{"name": changes.get("rule", "a-rule"), "violations": [violation]}],
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"file": "/etc/passwd"},
        {"file": "a/../../b"},
        {"file": ".."},
        {"file": "a\nb"},
        {"file": ["a"]},
        {"rule": "<b>rule</b>"},
        {"rule": "x" * 200},
        {"rule": None},
        {"message": b"x", "resource": b"y"},
        {"effect": []},
    ],
)
def test_forged_verdict_is_not_reported(changes: dict[str, object]) -> None:
    with pytest.raises(InputError, match="not the verdict"):
        code_quality(_forged(**changes))


def test_texts_of_a_forged_verdict_are_visible_and_bounded() -> None:
    (entry,) = code_quality(_forged(message="fail\u202e ssap\x1b[2J" + "x" * 10_000, line=-1))
    assert "\u202e" not in entry["description"] and "\x1b" not in entry["description"]
    assert len(entry["description"]) <= 1000
    assert entry["location"]["lines"]["begin"] == 1


@pytest.mark.parametrize("content", ["", "[]", "{}", "x", "[" * 100_000, '{"environment": 1, "rules": [1]}'])
def test_file_that_is_no_verdict_is_bad_input_without_a_traceback(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "v.json").write_text(content)
    assert main([str(tmp_path / "v.json")]) == 2
    reported = capsys.readouterr()
    assert reported.out == "" and reported.err.startswith("error: ")
    assert main([str(tmp_path / "missing.json")]) == 2
