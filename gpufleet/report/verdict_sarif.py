"""The verdict as SARIF 2.1.0: code scanning shows each violation at its line of the fleet file."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any
from urllib.parse import quote

import gpufleet
from gpufleet.report.verdict_words import one_line
from gpufleet.verdict.models import LocatedViolation, RuleResult, Verdict

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "gpufleetViolation/v1"
_LEVELS = {"mandatory": "error", "advisory": "warning", "exempted": "note"}
_RULE_LEVELS = {"mandatory": "error", "remediate": "error", "advisory": "warning", "disabled": "none"}
# GitHub's thresholds: 9.0 and above is critical, 7.0 high, 4.0 medium.
_SECURITY = {"critical": "9.5", "high": "8.0", "medium": "5.5", "low": "2.0"}


def verdict_to_sarif(verdict: Verdict) -> dict[str, Any]:
    """Return one run. Exempted violations are suppressed results; rules without violations are listed too."""
    index = {rule.name: number for number, rule in enumerate(verdict.rules)}
    seen: Counter[str] = Counter()
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "gpufleet",
                        "version": gpufleet.__version__,
                        "rules": [_rule(rule) for rule in verdict.rules],
                    }
                },
                # Each environment is a separate analysis, and replaces no other one.
                "automationDetails": {"id": f"gpufleet/{verdict.environment}/"},
                "originalUriBaseIds": {"SRCROOT": {"description": {"text": "The root of the repository."}}},
                "invocations": [
                    {
                        "executionSuccessful": True,
                        "endTimeUtc": f"{verdict.judged_at:%Y-%m-%dT%H:%M:%SZ}",
                    }
                ],
                "columnKind": "unicodeCodePoints",
                "results": [
                    _result(verdict, rule, index[rule.name], each, seen)
                    for rule in verdict.rules
                    for each in rule.violations
                ],
            }
        ],
    }


def _rule(rule: RuleResult) -> dict[str, Any]:
    help_text = f"{rule.why}\n\nHow to fix it: {rule.fix}"
    help_markdown = f"{rule.why}\n\n**How to fix it:** {rule.fix}"
    described: dict[str, Any] = {
        "id": rule.name,
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": f"{rule.title}. {rule.why}"},
        "help": {"text": help_text, "markdown": help_markdown},
        "defaultConfiguration": {
            "level": _RULE_LEVELS[rule.enforcement],
            "enabled": rule.enforcement != "disabled",
        },
        "properties": {
            "tags": [rule.group],
            "precision": "very-high",
            "problem.severity": "error" if rule.enforcement in ("mandatory", "remediate") else "warning",
        },
    }
    if rule.group == "security":
        described["properties"]["security-severity"] = _SECURITY[rule.severity]
    if rule.framework is not None:
        described["helpUri"] = rule.framework.reference
        described["properties"]["tags"].append(f"{rule.framework.name} {rule.framework.control}")
    return described


def _result(
    verdict: Verdict, rule: RuleResult, index: int, each: LocatedViolation, seen: Counter[str]
) -> dict[str, Any]:
    # Without line and message, an alert stays the same when the file changes around it.
    identity = "\0".join((verdict.environment, rule.name, each.resource, each.prop))
    number = seen[identity]
    seen[identity] += 1
    digest = hashlib.sha256(f"{identity}\0{number}".encode()).hexdigest()[:32]
    result: dict[str, Any] = {
        "ruleId": rule.name,
        "ruleIndex": index,
        "level": _LEVELS[each.effect],
        "message": {"text": one_line(f"{each.name}: {each.message}", 1000)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {
                        "uri": quote(f"{verdict.prefix}{each.file}"),
                        "uriBaseId": "SRCROOT",
                    },
                    "region": {"startLine": max(1, each.line)},
                },
                "logicalLocations": [
                    {"name": each.name, "fullyQualifiedName": each.resource, "kind": "resource"}
                ],
            }
        ],
        "partialFingerprints": {FINGERPRINT: f"{digest}:1"},
        "properties": {"effect": each.effect, "unknown": each.unknown},
    }
    if each.effect == "exempted":
        result["suppressions"] = [
            {"kind": "external", "status": "accepted", "justification": one_line(each.message, 500)}
        ]
    return result
