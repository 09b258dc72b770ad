"""Remedies tried: each that a program can apply is written into the file, and the file is judged again."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from gpufleet.findings import Finding
from gpufleet.spec.fixes import Fix, fixes
from gpufleet.spec.paths import parse_path


def useless(tree: Any, findings: Iterable[Finding], again: Callable[[Any], Iterable[Finding]]) -> list[str]:
    """The remedies that leave an error on their field, or bring another error; `again` judges a tree."""
    known = {(each.rule, each.field) for each in findings}
    reported = []
    for finding in findings:
        for fix in fixes(finding):
            found = list(again(applied(tree, fix)))
            left = [
                each
                for each in found
                if (each.severity == "error" and ((each.rule, each.field) not in known))
                or (each.field == finding.field and (each.severity == "error" or each.rule == finding.rule))
            ]
            reported += [
                f"{finding.rule} at {finding.field} ({finding.value}) says to {finding.remedy}:"
                f" with {fix.field} = {fix.value} there is {each.rule} at {each.field}: {each.message}"
                for each in left
            ]
    return reported


def applied(tree: Any, fix: Fix) -> Any:
    """The tree with the fix's value in its place."""
    changed = copy.deepcopy(tree)
    *parents, last = parse_path(fix.field)
    where = changed
    for part in parents:
        if isinstance(part, str) and where.get(part) is None:
            where[part] = {}
        where = where[part]
    if isinstance(where, list) and last == len(where):
        where.append(fix.value)
    else:
        where[last] = fix.value
    return changed
