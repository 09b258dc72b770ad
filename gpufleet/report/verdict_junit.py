"""The verdict as JUnit XML: each rule is a test case, a mandatory violation its failure.

XML 1.0 cannot contain control characters, not even escaped, so all texts are made visible first.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from gpufleet.report.verdict_words import one_line
from gpufleet.verdict.models import LocatedViolation, RuleResult, Verdict
from gpufleet.visible import visible_line


def verdict_to_junit(verdict: Verdict) -> str:
    """Return one suite per group of rules."""
    suites = ET.Element("testsuites", name=f"gpufleet check {verdict.environment}")
    totals = {"tests": 0, "failures": 0, "skipped": 0}
    for group in dict.fromkeys(rule.group for rule in verdict.rules):
        rules = [rule for rule in verdict.rules if rule.group == group]
        counts = {
            "tests": len(rules),
            "failures": sum(rule.status == "failed" for rule in rules),
            "skipped": sum(rule.status == "disabled" for rule in rules),
        }
        attributes = {
            "name": f"gpufleet.{verdict.environment}.{group}",
            **{name: str(count) for name, count in counts.items()},
            "errors": "0",
            "time": "0",
            "timestamp": f"{verdict.judged_at:%Y-%m-%dT%H:%M:%S}",
        }
        suite = ET.SubElement(suites, "testsuite", attributes)
        for rule in rules:
            _case(suite, verdict, rule)
        for name, count in counts.items():
            totals[name] += count
    suites.attrib.update({name: str(count) for name, count in totals.items()}, errors="0")
    suites.set("time", f"{verdict.seconds:.3f}")
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def _case(suite: ET.Element, verdict: Verdict, rule: RuleResult) -> None:
    file, line = next(((each.file, each.line) for each in rule.violations), (verdict.fleet_file, 1))
    case = ET.SubElement(
        suite,
        "testcase",
        classname=f"gpufleet.{verdict.environment}.{rule.group}",
        name=rule.name,
        time="0",
        file=visible_line(f"{verdict.prefix}{file}"),
        line=str(line),
    )
    failing = [each for each in rule.violations if each.effect == "mandatory"]
    others = [each for each in rule.violations if each.effect != "mandatory"]
    if rule.status == "disabled":
        ET.SubElement(case, "skipped", message=one_line(rule.note or "disabled"))
    if failing:
        more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
        message = one_line(f"{failing[0].name}: {failing[0].message}", 400) + more
        failure = ET.SubElement(case, "failure", message=message, type=rule.name)
        failure.text = "\n".join(map(_line, failing))
    if others:
        ET.SubElement(case, "system-out").text = "\n".join(map(_line, others))


def _line(each: LocatedViolation) -> str:
    return one_line(f"{each.file}:{each.line}: {each.effect}: {each.name}: {each.message}", 1000)
