"""JUnit XML: a rule is a test case."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from gpufleet.report.verdict_junit import verdict_to_junit
from gpufleet.verdict.models import RuleResult
from tests.unit.verdict.conftest import rule, verdict, violated


def _suites(*rules: RuleResult) -> ET.Element:
    text = verdict_to_junit(verdict(*rules))
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n')
    root = ET.fromstring(text)
    for suite in root:
        cases = suite.findall("testcase")
        assert int(suite.attrib["tests"]) == len(cases)
        assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure"))
        assert int(suite.attrib["skipped"]) == len(suite.findall("testcase/skipped"))
    for name in ("tests", "failures", "skipped"):
        assert int(root.attrib[name]) == sum(int(suite.attrib[name]) for suite in root)
    return root


def test_failed_rule_is_a_failure_with_every_violation() -> None:
    root = _suites(rule("a", violated("first"), violated("second")), rule("b"))
    (failure,) = root.findall(".//failure")
    assert failure.attrib["message"].endswith("(and 1 more)")
    assert failure.text is not None
    assert failure.text.count("stacks/prod/fleet.yaml:17") == 2


def test_advice_and_exemptions_are_reported_without_failure() -> None:
    root = _suites(
        rule("a", violated("soft", effect="advisory"), status="advisory"),
        rule("b", violated("allowed", effect="exempted"), status="exempted"),
    )
    assert root.attrib["failures"] == "0"
    reported = [element.text or "" for element in root.findall(".//system-out")]
    assert ["soft" in reported[0], "allowed" in reported[1]] == [True, True]


def test_rule_that_did_not_run_is_skipped_with_the_reason() -> None:
    root = _suites(rule("a", status="disabled", note="no base"), rule("b", status="disabled"))
    assert [each.attrib["message"] for each in root.findall(".//skipped")] == ["no base", "disabled"]


def test_each_group_is_a_suite() -> None:
    root = _suites(rule("a", group="budget"), rule("b", group="tags"), rule("c", group="budget"))
    assert [(suite.attrib["name"], suite.attrib["tests"]) for suite in root] == [
        ("gpufleet.prod.budget", "2"),
        ("gpufleet.prod.tags", "1"),
    ]


def test_user_text_is_escaped_in_xml() -> None:
    root = _suites(rule("a", violated("]]> <b> & \x00 \x1b \ufffe \ud800", name='"><x')))
    (failure,) = root.findall(".//failure")
    assert "<b>" in failure.attrib["message"]
    assert root.find(".//x") is None
