"""GitLab's Code Quality report has the contents of the verdict."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpufleet.comment.code_quality import code_quality


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
