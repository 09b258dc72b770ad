"""One table for all hosts: equal hosts share a row, and failures are listed below."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Column, Table

from gpufleet.racks.hostlists import fold_equal, fold_hosts
from gpufleet.racks.preflight.verdict import PreflightVerdict, Status

_COLUMNS = (
    "os",
    "kernel",
    "cpu",
    "memory",
    "gpus",
    "nics",
    "iommu",
    "hugepages",
    "clock",
    "disk",
    "secure-boot",
)
_STYLE: dict[Status, str] = {"pass": "green", "warn": "yellow", "fail": "bold red", "not-judged": "dim"}
_SHOWN_ELSEWHERE = frozenset({"gpu-links", "nic-links", "gpu-iommu", "uniform", "measured"})
# Free space differs from host to host: while there is enough, it must not keep equal hosts apart.
_NEVER_EQUAL = frozenset({"disk"})


def preflight_table(verdicts: Sequence[PreflightVerdict]) -> RenderableType:
    """The table, then each thing that is wrong once with the hosts that it concerns."""
    by_host: dict[str, dict[str, PreflightVerdict]] = defaultdict(dict)
    worst: dict[str, Status] = {}
    for verdict in verdicts:
        if verdict.check not in _SHOWN_ELSEWHERE:
            by_host[verdict.host][verdict.check] = verdict
        worst[verdict.host] = _worse(worst.get(verdict.host, "pass"), verdict.status)
    rows: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for host in worst:
        cells = tuple(_cell(by_host[host].get(column)) for column in _COLUMNS)
        rows[(*cells, _colored(worst[host], worst[host]))].append(host)
    # Host ranges are what one copies from here: they wrap and are never cut.
    first = Column("hosts", overflow="fold", min_width=12)
    table = Table(first, *_COLUMNS, "verdict", box=None, pad_edge=False)
    for cells, hosts in rows.items():
        count = f" ({len(hosts)})" if len(hosts) > 1 else ""
        table.add_row(escape(fold_hosts(hosts) + count), *cells)
    return Group(table, *_remarks(verdicts))


def _remarks(verdicts: Sequence[PreflightVerdict]) -> list[str]:
    wrong = sorted(
        (item for item in verdicts if item.status in ("fail", "warn")), key=lambda item: item.status
    )
    return [
        f"{_colored(status, status)} {escape(hosts)}: {check}: {escape(message)}\n    fix: {escape(remedy)}"
        for hosts, (status, check, message, remedy) in fold_equal(
            (item.host, (item.status, item.check, item.message, item.remedy)) for item in wrong
        )
    ]


def _cell(verdict: PreflightVerdict | None) -> str:
    if verdict is None:
        return "-"
    alike = verdict.check in _NEVER_EQUAL and verdict.status == "pass"
    return _colored(verdict.status, "enough" if alike else verdict.measured)


def _colored(status: Status, text: str) -> str:
    return f"[{_STYLE[status]}]{escape(text)}[/{_STYLE[status]}]"


def _worse(one: Status, other: Status) -> Status:
    order: tuple[Status, ...] = ("pass", "warn", "fail")
    ranked = [status if status != "not-judged" else "pass" for status in (one, other)]
    return max(ranked, key=order.index)
