"""The results for a terminal: a row for each role, then each thing that is wrong once with its hosts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Column, Table

from gpufleet.racks.hostlists import fold_equal
from gpufleet.racks.verify.result import Result, Status

_STYLE: dict[Status, str] = {"pass": "green", "warn": "yellow", "fail": "bold red"}
_ORDER: tuple[Status, ...] = ("pass", "warn", "fail")


def verify_table(results: Sequence[Result]) -> RenderableType:
    """The table and the remarks below it."""
    hosts: dict[str, dict[str, Status]] = defaultdict(dict)
    checks: dict[str, dict[str, Status]] = defaultdict(dict)
    for item in results:
        for where, name in ((hosts, item.host), (checks, item.check)):
            where[item.role][name] = _worse(where[item.role].get(name, "pass"), item.status)
    table = Table("role", "hosts", Column("checks", overflow="fold"), "verdict", box=None, pad_edge=False)
    for role, states in hosts.items():
        worst: Status = "pass"
        for state in states.values():
            worst = _worse(worst, state)
        good = sum(1 for state in states.values() if state != "fail")
        shown = ", ".join(_colored(status, name) for name, status in checks[role].items())
        table.add_row(role, f"{good} of {len(states)}", shown, _colored(worst, worst))
    return Group(table, *_remarks(results))


def _remarks(results: Sequence[Result]) -> list[str]:
    ordered = sorted((item for item in results if item.status != "pass"), key=lambda item: item.status)
    return [
        f"{_colored(status, status)} {escape(hosts)}: {escape(role)}: {escape(check)}: "
        f"{escape(message)}\n    fix: {escape(remedy)}"
        for hosts, (status, role, check, message, remedy) in fold_equal(
            (item.host, (item.status, item.role, item.check, item.message, item.remedy)) for item in ordered
        )
    ]


def _colored(status: Status, text: str) -> str:
    return f"[{_STYLE[status]}]{escape(text)}[/{_STYLE[status]}]"


def _worse(one: Status, other: Status) -> Status:
    return max(one, other, key=_ORDER.index)
