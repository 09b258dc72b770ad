"""A preflight of an account as text, and as the stable JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console

from gpufleet.account.result import AccountCheck, AccountFinding, Preflight
from gpufleet.findings import Finding

Placed = Callable[[AccountFinding], Finding]
"""Gives a finding its file and line."""

_MARKS = {"pass": "ok", "missing": "missing", "not-checked": "not checked"}


def print_preflight(preflight: Preflight, placed: Placed, console: Console) -> None:
    """Print each check, the zones of the account, everything missing with its request, and what was not
    checked."""
    for check in preflight.checks:
        line = f"{check.check:<22} {check.region:<16} {_MARKS[check.status]}{_detail(check)}"
        console.print(line.rstrip(), markup=False, soft_wrap=True)
    print_missing(preflight, placed, console)
    for note in preflight.notes:
        console.print(f"note: {note}", markup=False, soft_wrap=True)


def print_missing(preflight: Preflight, placed: Placed, console: Console) -> None:
    """Print what is missing with its line and request, and what was not checked."""
    for finding in preflight.findings:
        where = placed(finding)
        console.print(
            f"{where.file}:{where.line}: {finding.severity}: {finding.message}", markup=False, soft_wrap=True
        )
        console.print(f"    {finding.remedy}", markup=False, soft_wrap=True)
        if finding.request:
            console.print(f"    {finding.request}", markup=False, soft_wrap=True)
    for reason in preflight.unchecked:
        console.print(f"not checked: {reason}", markup=False, soft_wrap=True)


def preflight_to_json(preflight: Preflight, placed: Placed) -> dict[str, Any]:
    """Return the preflight as plain values.

    `status` is `pass`, `missing` or `not-checked`; `findings` have the keys of `gpufleet validate` and
    `request`.
    """
    return {
        "status": preflight.status,
        "account": preflight.account,
        "checks": [
            {
                "check": check.check,
                "region": check.region,
                "status": check.status,
                "not_checked": list(check.unchecked),
                "facts": [dict(fact) for fact in check.facts],
            }
            for check in preflight.checks
        ],
        "findings": [
            {**placed(finding).to_json(), "request": finding.request} for finding in preflight.findings
        ],
        "notes": list(preflight.notes),
    }


def _detail(check: AccountCheck) -> str:
    if check.check == "zones" and check.facts:
        return ": " + _listed([f"{fact['zone']} is {fact['zone_id']}" for fact in check.facts])
    if check.check == "quotas" and check.facts:
        return f": {len(check.facts)} quotas read"
    return ""


def _listed(items: Sequence[str]) -> str:
    return ", ".join(items)
