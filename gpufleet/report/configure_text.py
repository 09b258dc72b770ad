"""The result of `gpufleet configure` for a terminal: changes by role, failures, hosts as ranges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpufleet.racks.configure.result import ConfigureResult, TaskChange
from gpufleet.racks.diffs import Diff
from gpufleet.racks.events import HostStats
from gpufleet.racks.hostlists import fold_equal, fold_hosts
from gpufleet.racks.preflight.table import preflight_table
from gpufleet.report.tables import print_table

_SHOWN_LINES = 12


def print_configure(result: ConfigureResult, console: Console, *, diffs: bool) -> None:
    """Print preflight findings, changes, notices, failures, hosts and a summary line."""
    if any(verdict.status in ("fail", "warn") for verdict in result.verdicts):
        print_table(preflight_table(result.verdicts), console)
        console.print()
    for part in _changes(result, diffs=diffs):
        console.print(part, soft_wrap=True)
    for part in (*_notices(result), *_failures(result)):
        console.print(part, soft_wrap=True)
    print_table(hosts_table(result), console)
    console.print(summary(result), soft_wrap=True)


def hosts_table(result: ConfigureResult) -> Table:
    """Return counts by host; hosts with equal counts share a row."""
    rows: dict[HostStats, list[str]] = defaultdict(list)
    for name, stats in result.hosts.items():
        rows[stats].append(name)
    table = Table("hosts", "ok", "changed", "failed", "unreachable", "skipped", box=None, pad_edge=False)
    for stats, names in rows.items():
        count = f" ({len(names)})" if len(names) > 1 else ""
        table.add_row(
            Text(fold_hosts(names) + count, overflow="fold"),
            str(stats.ok),
            Text(str(stats.changed), style="yellow" if stats.changed else ""),
            Text(str(stats.failed), style="bold red" if stats.failed else ""),
            Text(str(stats.unreachable), style="bold red" if stats.unreachable else ""),
            str(stats.skipped),
        )
    return table


def summary(result: ConfigureResult) -> Text:
    """Return the run in one line."""
    verb = "would change" if result.check else "changed"
    text = (
        f"{result.environment}: {len(result.hosts)} hosts, {result.changed} tasks {verb}"
        f" something, {len(result.failed_hosts)} hosts failed, {result.duration_s:.0f}s"
    )
    if result.cut_short:
        return Text(f"{text}; ended early: {result.cut_short}", style="bold red")
    return Text(text, style="bold red" if result.failed_hosts else "bold green")


def _changes(result: ConfigureResult, *, diffs: bool) -> Iterator[Text]:
    by_role: dict[str, list[TaskChange]] = defaultdict(list)
    for change in result.changes:
        by_role[change.role].append(change)
    for role, changes in by_role.items():
        yield Text(f"{role} {'would change' if result.check else 'changed'}:", style="bold")
        for change in changes:
            yield Text(f"  ~ {change.task}: {fold_hosts(change.hosts)}", style="yellow")
            for diff in change.diffs if diffs else ():
                yield from _diff(diff)


def _diff(diff: Diff) -> Iterator[Text]:
    if diff.what:
        yield Text(f"      {diff.what}", style="dim")
    lines = diff.text.splitlines()
    for line in lines[:_SHOWN_LINES]:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")
        yield Text(f"      {line}", style=style)
    if len(lines) > _SHOWN_LINES:
        yield Text(f"      ({len(lines) - _SHOWN_LINES} more lines; the page has them)", style="dim")


def _failures(result: ConfigureResult) -> Iterator[Text]:
    for hosts, (kind, role, task, message) in fold_equal(
        (item.host, (item.kind, item.role, item.task, item.message))
        for item in result.failures
        if item.role != "preflight"
    ):
        yield Text(f"{kind}: {hosts}: {role}: {task}: {message}", style="bold red")


def _notices(result: ConfigureResult) -> Iterator[Text]:
    for hosts, (role, message) in fold_equal(
        (item.host, (item.role, item.message)) for item in result.notices
    ):
        yield Text(f"notice: {hosts}: {role}: {message}", style="yellow")
