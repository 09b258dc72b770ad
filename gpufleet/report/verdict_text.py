"""The verdict on a terminal: result, advice, cost and changes, and failures last."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpufleet.report import verdict_words as words
from gpufleet.report.cost_text import cost_table
from gpufleet.report.refusals_text import PolicyRefusal, print_refusals
from gpufleet.report.tables import print_table
from gpufleet.verdict.models import Verdict
from gpufleet.visible import visible_line

_SHOWN = 15
_COLORS = {"advisory": "yellow", "exempted": "cyan"}
_EFFECTS = {"advisory": "advice", "exempted": "exempted"}


def print_verdict(verdict: Verdict, console: Console, *, brief: bool = False) -> None:
    """Print what a reviewer needs before the merge; other formats have the rest.

    `brief` prints only the first line and the failures.
    """
    mark = Text("PASS", style="bold green") if verdict.passed else Text("FAIL", style="bold red")
    _line(
        console, mark, Text(f"  {verdict.environment}  {words.against(verdict)}: {words.headline(verdict)}")
    )
    if judged := words.judged_by(verdict):
        _plain(console, judged, "yellow")
    if not brief:
        for part in (_advice, _cost, _changes, _racks, _rest):
            part(verdict, console)
    # Last and never cut, where readers look.
    print_refusals(
        [
            PolicyRefusal(rule.name, each.name, each.message, each.remedy, each.file, each.line)
            for rule, each in words.violations(verdict.rules, "mandatory")
        ],
        console,
    )


def _line(console: Console, *parts: Text) -> None:
    console.print(Text.assemble(*parts), soft_wrap=True)


def _plain(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=True)


def _advice(verdict: Verdict, console: Console) -> None:
    found = words.violations(verdict.rules, "advisory", "exempted")
    if found:
        console.print()
    for rule, each in found[:_SHOWN]:
        _line(
            console,
            Text(visible_line(f"{each.file}:{each.line}: "), style="bold"),
            Text(f"{_EFFECTS[each.effect]}: ", style=_COLORS[each.effect]),
            Text(f"{rule.name}: {words.one_line(each.name, 120)}: {words.one_line(each.message)}"),
        )
    if len(found) > _SHOWN:
        _plain(console, f"({len(found) - _SHOWN} more; --json has all)", "dim")


def _cost(verdict: Verdict, console: Console) -> None:
    costs = verdict.costs
    compared = costs.before is not None
    lines = words.shown_lines(costs)
    columns = ("before", "after", "at maximum") if compared else ("requested", "at maximum")
    table = cost_table("USD a month", *columns)
    for column in table.columns[1:]:
        column.justify = "right"
    table.columns[0].justify = "left"
    table.columns[0].no_wrap = False

    def row(name: str | Text, before: str, *amounts: str) -> None:
        table.add_row(name, *((before, *amounts) if compared else amounts))

    for line in lines[:_SHOWN]:
        row(Text(words.line_name(line)), *words.line_amounts(line))
    if len(lines) > _SHOWN:
        row(Text(f"({len(lines) - _SHOWN} more lines; --json has all)"), "", "", "")
    row(Text("total", style="bold"), *words.total_amounts(costs))
    if costs.budget is not None:
        row("budget", "", words.amount(costs.budget), "")
    if costs.upfront or costs.upfront_before:
        row("paid upfront, once", words.amount(costs.upfront_before), words.amount(costs.upfront), "")
    console.print()
    print_table(table, console)
    for line in costs.unknown[:_SHOWN]:
        _plain(console, f"unknown cost: {words.line_name(line)}: {words.one_line(line.reason)}", "yellow")
    if len(costs.unknown) > _SHOWN:
        _plain(console, f"({len(costs.unknown) - _SHOWN} more unknown costs)", "dim")
    if costs.estimated:
        _plain(console, words.estimates(costs), "yellow")
    if verdict.base is not None:
        _plain(console, f"difference: {words.difference(costs)}")
    for each in verdict.open_changes:
        price = "unknown" if each.increase is None else words.amount(each.increase, costs.currency)
        _plain(console, f"open change {words.one_line(each.name, 80)}: {price}")
    _plain(console, words.price_age(costs), "dim")


def _changes(verdict: Verdict, console: Console) -> None:
    console.print()
    _plain(console, f"resources: {words.changes_summary(verdict)}", "bold")
    if unknown := words.assumed(verdict):
        _plain(console, unknown, "yellow")
    if verdict.base is None:
        return
    for (site, owner), changes in words.grouped(verdict.changes).items():
        counts = Counter(each.operation for each in changes)
        parts = ", ".join(f"{counts[name]} to {name}" for name in words.OPERATIONS if counts[name])
        _plain(console, f"  {words.one_line(words.group_name(site, owner), 120)}: {parts}")
        lost = [each for each in changes if each.operation in ("replace", "delete")]
        for each in lost[:_SHOWN]:
            _plain(console, f"    {each.operation} {words.resource_text(each)}", "magenta")
        if len(lost) > _SHOWN:
            _plain(console, f"    ({len(lost) - _SHOWN} more)", "dim")


def _racks(verdict: Verdict, console: Console) -> None:
    changed = [each for each in verdict.racks if each.changed and verdict.base is not None]
    for each in changed:
        table = Table(box=None, pad_edge=True)
        table.add_column(Text(f"racks of {words.one_line(each.site, 80)}"))
        table.add_column("before", justify="right")
        table.add_column("after", justify="right")
        for row in words.rack_rows(each):
            table.add_row(*row)
        console.print()
        print_table(table, console)


def _rest(verdict: Verdict, console: Console) -> None:
    for each in verdict.exemptions:
        style = "" if each.in_force and each.used != 0 else "yellow"
        _plain(console, f"exemption {each.file}:{each.line}: {words.exemption_text(each)}", style)
    for text in verdict.warnings:
        _plain(console, f"warning: {words.one_line(text)}", "yellow")
    _plain(console, f"checked in {verdict.seconds:.1f} s by the {verdict.engine} engine", "dim")
