"""SARIF 2.1.0, judged by the parts of its schema that code scanning reads."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft7Validator

from gpufleet.policy.rule import Framework
from gpufleet.report.verdict_sarif import FINGERPRINT, verdict_to_sarif
from tests.unit.verdict.conftest import rule, verdict, violated

_TEXT = {
    "type": "object",
    "required": ["text"],
    "properties": {"text": {"type": "string", "minLength": 1}, "markdown": {"type": "string"}},
    "additionalProperties": False,
}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_RULE = _object(
    ["id", "shortDescription", "help"],
    id={"type": "string"},
    name={"type": "string", "pattern": "^[A-Za-z0-9]+$"},
    shortDescription=_TEXT,
    fullDescription=_TEXT,
    help=_TEXT,
    helpUri={"type": "string", "pattern": "^https://"},
    defaultConfiguration=_object(["level"], level=_LEVEL, enabled={"type": "boolean"}),
    properties={"type": "object"},
)
_PLACE = _object(
    ["physicalLocation"],
    physicalLocation=_object(
        ["artifactLocation", "region"],
        artifactLocation=_object(
            ["uri"], uri={"type": "string", "pattern": "^[A-Za-z0-9._~%/-]+$"}, uriBaseId={"const": "SRCROOT"}
        ),
        region=_object(["startLine"], startLine={"type": "integer", "minimum": 1}),
    ),
    logicalLocations=_list(
        _object([], name={"type": "string"}, fullyQualifiedName={"type": "string"}, kind={"type": "string"})
    ),
)
_RESULT = _object(
    ["ruleId", "ruleIndex", "message", "locations", "partialFingerprints"],
    ruleId={"type": "string"},
    ruleIndex={"type": "integer", "minimum": 0},
    level=_LEVEL,
    message=_TEXT,
    locations={"type": "array", "minItems": 1, "items": _PLACE},
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
    suppressions=_list(
        _object(
            ["kind"],
            kind={"enum": ["inSource", "external"]},
            status={"enum": ["accepted", "underReview", "rejected"]},
            justification={"type": "string"},
        )
    ),
    properties={"type": "object"},
)
_RUN = _object(
    ["tool", "results"],
    tool=_object(
        ["driver"],
        driver=_object(["name"], name={"type": "string"}, version={"type": "string"}, rules=_list(_RULE)),
    ),
    automationDetails=_object([], id={"type": "string"}),
    originalUriBaseIds={"type": "object"},
    invocations=_list(
        _object(
            ["executionSuccessful"],
            executionSuccessful={"type": "boolean"},
            endTimeUtc={"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"},
        )
    ),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    results=_list(_RESULT),
)
SCHEMA = {
    **_object(
        ["version", "runs"],
        **{"$schema": {"type": "string"}, "version": {"const": "2.1.0"}, "runs": _list(_RUN)},
    )
}


def _sarif(*rules: Any, **changes: Any) -> dict[str, Any]:
    document = verdict_to_sarif(verdict(*rules, **changes))
    assert [error.message for error in Draft7Validator(SCHEMA).iter_errors(document)] == []
    run: dict[str, Any] = document["runs"][0]
    return run


def test_violation_is_a_result_at_the_line_of_the_fleet_file() -> None:
    run = _sarif(rule("fine"), rule("closed-buckets", violated()))
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "stacks/prod/fleet.yaml"
    assert place["region"]["startLine"] == 17
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "closed-buckets"


@pytest.mark.parametrize(
    ("effect", "level"), [("mandatory", "error"), ("advisory", "warning"), ("exempted", "note")]
)
def test_result_level_follows_the_violation(effect: str, level: str) -> None:
    (result,) = _sarif(rule("a", violated(effect=effect)))["results"]
    assert result["level"] == level
    assert ("suppressions" in result) is (effect == "exempted")


def test_rules_have_help_severity_and_framework() -> None:
    framework = Framework("CIS", "1.2", "https://example.com/cis")
    described = _sarif(rule("a", framework=framework), rule("b", group="budget"))["tool"]["driver"]["rules"]
    assert described[0]["helpUri"] == "https://example.com/cis"
    assert float(described[0]["properties"]["security-severity"]) == 8.0
    assert "security-severity" not in described[1]["properties"]
    assert "Close it." in described[0]["help"]["text"]


def test_disabled_rule_is_listed_as_disabled() -> None:
    (described,) = _sarif(rule("a", enforcement="disabled", status="disabled"))["tool"]["driver"]["rules"]
    assert described["defaultConfiguration"] == {"level": "none", "enabled": False}


def _prints(*violations: Any, **changes: Any) -> list[str]:
    results = _sarif(rule("a", *violations), **changes)["results"]
    return [result["partialFingerprints"][FINGERPRINT] for result in results]


def test_fingerprint_survives_a_changed_line_and_message() -> None:
    assert _prints(violated("one", line=1)) == _prints(violated("two", line=99))


def test_fingerprints_differ_by_resource_property_environment_and_repetition() -> None:
    found = [
        *_prints(violated(), violated()),
        *_prints(violated(resource="urn:other")),
        *_prints(violated(prop="other")),
        *_prints(violated(), environment="dev"),
    ]
    assert len(set(found)) == 5


def test_each_environment_is_a_separate_analysis() -> None:
    assert _sarif()["automationDetails"]["id"] == "gpufleet/prod/"


def test_paths_start_at_the_top_of_the_repository() -> None:
    (result,) = _sarif(rule("a", violated(file="stacks/a b/fleet.yaml")), prefix="infra/gpu/")["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "infra/gpu/stacks/a%20b/fleet.yaml"


def test_unknown_line_is_line_1() -> None:
    (result,) = _sarif(rule("a", violated(line=0)))["results"]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 1


def test_messages_have_no_control_characters() -> None:
    (result,) = _sarif(rule("a", violated("a\x1b[31mb\nc")))["results"]
    assert "\x1b" not in result["message"]["text"]
    assert "\n" not in result["message"]["text"]
