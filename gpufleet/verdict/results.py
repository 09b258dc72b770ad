"""The result of each rule, with lines of the fleet file."""

from __future__ import annotations

import datetime as dt
from collections.abc import Container, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from gpufleet.findings import SAME_AS_FINDING, Finding
from gpufleet.policy import exemptions
from gpufleet.policy.report import ReportedViolation
from gpufleet.policy.rule import Rule
from gpufleet.policy.settings import ConfiguredRule
from gpufleet.spec.policy import Exemption
from gpufleet.spec.source import SourceMap
from gpufleet.verdict.locate import Locator
from gpufleet.verdict.models import Effect, ExemptionUse, LocatedViolation, RuleResult, Status

STACK = "stack"
_ROOT = "pulumi:pulumi:Stack"
_BEFORE = "by the limits before the change, which loosens them"
_SEPARATELY = "or loosen the limit in a change of its own, which its owner approves"


def judged_by_both(
    own: Sequence[ReportedViolation], held: Sequence[ReportedViolation]
) -> list[ReportedViolation]:
    """Return the violations by the limits of the change itself, and those by stricter limits before it.

    The latter say so, and replace what an exemption or a lower level of the change allows.
    """
    known = {_identity(each) for each in own}
    stricter = [
        replace(each, message=f"{each.message} ({_BEFORE})", remedy=f"{each.remedy}; {_SEPARATELY}")
        for each in held
        if _identity(each) not in known
    ]
    places = {(each.rule, each.urn, each.prop) for each in stricter}
    kept = [
        each for each in own if each.level == "mandatory" or (each.rule, each.urn, each.prop) not in places
    ]
    return [*kept, *stricter]


def _identity(each: ReportedViolation) -> tuple[str, ...]:
    return each.rule, each.urn, each.prop, each.message, each.level


def rule_results(
    configured: Iterable[ConfiguredRule],
    found: Sequence[ReportedViolation],
    locator: Locator,
    *,
    no_change: str = "",
) -> tuple[RuleResult, ...]:
    """Return a result for each rule in the order of the pack. `no_change` is the reason if there is no
    change."""
    by_rule: dict[str, list[ReportedViolation]] = {}
    for each in found:
        by_rule.setdefault(each.rule, []).append(each)
    return tuple(_result(each, by_rule.get(each.rule.name, ()), locator, no_change) for each in configured)


def _result(
    each: ConfiguredRule, found: Sequence[ReportedViolation], locator: Locator, no_change: str
) -> RuleResult:
    rule: Rule[Any] = each.rule
    violations = tuple(_violated(one, locator) for one in found)
    skipped = rule.scope == "change" and bool(no_change) and each.enforcement != "disabled"
    return RuleResult(
        name=rule.name,
        group=rule.group,
        scope=rule.scope,
        title=rule.title,
        why=rule.why,
        fix=rule.fix,
        severity=rule.severity,
        enforcement=each.enforcement,
        status="disabled" if skipped or each.enforcement == "disabled" else status_of(violations),
        violations=violations,
        framework=rule.framework,
        note=no_change if skipped else "",
    )


def warnings_of(findings: Iterable[Finding], rules: Iterable[RuleResult]) -> tuple[str, ...]:
    """Return the warnings of the fleet file as text, without those that a violated rule also reports."""
    violated = {rule.name for rule in rules if rule.violations}
    return tuple(
        f"{each.file}:{each.line}: {each.field}: {each.message}"
        for each in findings
        if SAME_AS_FINDING.get(each.rule) not in violated
    )


def status_of(violations: Iterable[LocatedViolation]) -> Status:
    """Return the status of a rule: that of its most severe violation."""
    effects = {violation.effect for violation in violations}
    if "mandatory" in effects:
        return "failed"
    if "advisory" in effects:
        return "advisory"
    return "exempted" if effects else "passed"


def _violated(found: ReportedViolation, locator: Locator) -> LocatedViolation:
    whole = not found.urn or is_stack(found.urn)
    file, line = locator.at("" if whole else found.urn, found.fleet_field)
    effect: Effect = (
        "exempted" if found.exempted else "mandatory" if found.level == "mandatory" else "advisory"
    )
    return LocatedViolation(
        resource=STACK if whole else found.urn,
        name=STACK if whole else name_of(found.urn),
        message=found.message,
        remedy=found.remedy,
        file=file,
        line=line,
        effect=effect,
        prop=found.prop,
        unknown=found.unknown,
    )


def is_stack(urn: str) -> bool:
    """Return whether a URN is that of the stack."""
    return urn.split("::")[-2:-1] == [_ROOT]


def name_of(urn: str) -> str:
    """Return the name in a URN."""
    return urn.split("::", 3)[-1]


def exemption_uses(
    declared: Sequence[Exemption],
    found: Sequence[ReportedViolation],
    source: SourceMap,
    today: dt.date,
    unasked: Container[str] = (),
) -> tuple[ExemptionUse, ...]:
    """Return all exemptions with the number of violations that each covers, in the order of the files.

    For rules that were not evaluated (`unasked`) the number is None.
    """
    uses: list[ExemptionUse] = []
    for index, exemption in enumerate(declared):
        used = sum(
            exemptions.find([exemption], each.rule, each.urn, name_of(each.urn), today) is not None
            for each in found
            if each.rule == exemption.rule
        )
        known = None if exemption.rule in unasked else used
        file, line = source.at(("exemptions", index))
        uses.append(ExemptionUse(exemption, exemptions.is_in_force(exemption, today), known, file, line))
    return tuple(uses)
