"""The violations of mandatory rules that refused a run, with line and remedy."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from gpufleet.engine.api import PolicyEvent, StackRequest
from gpufleet.policy.fleet import open_stack
from gpufleet.policy.pack import load_rules
from gpufleet.policy.report import Report, read_report
from gpufleet.report.refusals_text import PolicyRefusal
from gpufleet.resources.stack import Stack
from gpufleet.verdict.locate import Locator
from gpufleet.verdict.results import STACK, is_stack, name_of


def refusals_of(violations: Iterable[PolicyEvent]) -> tuple[PolicyRefusal, ...]:
    """Return the mandatory violations from a policy pack's events: no line, remedy in the message."""
    return tuple(
        PolicyRefusal(each.policy, _name(each.urn), each.message)
        for each in violations
        if each.enforcement == "mandatory"
    )


def placed_refusals(
    violations: Iterable[PolicyEvent], request: StackRequest, report: Path, before: Stack
) -> tuple[PolicyRefusal, ...]:
    """Return the mandatory violations with file, line and remedy, from the report of the checkout's pack."""
    violations = tuple(violations)
    fleet = open_stack(request.project_root, request.project, request.stack, request.config, preview=True)
    if fleet.loaded is None or fleet.shared.spec is None:
        return refusals_of(violations)
    try:
        found = read_report(report)
    except (FileNotFoundError, json.JSONDecodeError):
        # The preview did not finish.
        found = Report(Stack(()), ())
    fields = {rule.name: rule.fleet_field for rule in load_rules(request.project_root)}
    locator = Locator(fleet.shared.spec, fleet.loaded.source, (found.stack, before))
    details = {(each.rule, each.message): (each.remedy, each.fleet_field) for each in found.found}
    placed = []
    for each in violations:
        if each.enforcement == "mandatory":
            remedy, field = details.get((each.policy, each.message), ("", fields.get(each.policy, "")))
            whole = not each.urn or is_stack(each.urn)
            file, line = locator.at("" if whole else each.urn, field)
            placed.append(PolicyRefusal(each.policy, _name(each.urn), each.message, remedy, file, line))
    return tuple(placed)


def _name(urn: str) -> str:
    return STACK if not urn or is_stack(urn) else name_of(urn)
