"""`gpufleet rules`: list the rules of the policy pack, or explain one."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from gpufleet.catalog.catalog import nearest
from gpufleet.cli import completion
from gpufleet.cli.arguments import Json
from gpufleet.cli.console import emit_json, note, out
from gpufleet.errors import InputError
from gpufleet.policy.rule import Rule
from gpufleet.report.tables import print_table
from gpufleet.workspace import find_root

Name = Annotated[
    str | None,
    typer.Argument(help="A rule to explain; default: list all.", autocompletion=completion.rules),
]


def register(app: typer.Typer) -> None:
    """Add the command of this module to `app`."""
    app.command()(rules)


def rules(name: Name = None, json: Json = False) -> None:
    """List the policy rules, or explain one: reason, settings, fix, exemption."""
    from gpufleet.policy.docs import describe
    from gpufleet.policy.pack import load_rules

    found = load_rules(find_root())
    if name is not None:
        rule = _named(name, found)
        if json:
            emit_json(describe(rule))
        else:
            _explain(rule)
    elif json:
        emit_json({"rules": [describe(rule) for rule in found]})
    else:
        _list(found)


def _named(name: str, found: tuple[Rule[Any], ...]) -> Rule[Any]:
    for rule in found:
        if rule.name == name:
            return rule
    guess = nearest(name, [rule.name for rule in found])
    raise InputError(
        f"there is no rule {name!r}" + (f"; did you mean {guess!r}?" if guess else ""),
        remedy="`gpufleet rules` lists all rules",
    )


def _list(found: tuple[Rule[Any], ...]) -> None:
    from gpufleet.policy.docs import GROUPS

    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("rule", "what", "severity", "level"):
        table.add_column(column, no_wrap=column == "rule")
    for group, title in GROUPS.items():
        of_group = [rule for rule in found if rule.group == group]
        if of_group:
            table.add_row(f"[bold]{title}[/bold]", "", "", "")
        for rule in of_group:
            table.add_row(f"  {rule.name}", escape(rule.title), rule.severity, rule.enforcement)
    print_table(table, out)
    note(f"{len(found)} rule{'s' if len(found) != 1 else ''}; `gpufleet rules NAME` explains a rule")


def _explain(rule: Rule[Any]) -> None:
    from gpufleet.policy import examples
    from gpufleet.policy.docs import GROUPS, SCOPES, exemption_text, settings_of, types_text

    violations = examples.evaluate(rule, rule.fails)

    def row(label: str, text: str) -> None:
        out.print(f"[bold]{label}[/bold] {escape(text)}", soft_wrap=True)

    row(rule.name, f"({GROUPS[rule.group]}, {rule.severity}, {rule.enforcement})")
    out.print(f"{rule.title}.", markup=False, soft_wrap=True)
    row("why:", rule.why)
    row("checks:", SCOPES[rule.scope])
    row("types:", types_text(rule))
    if rule.framework is not None:
        row("control:", f"{rule.framework.name} {rule.framework.control}, {rule.framework.reference}")
    for setting, kind, default, text in settings_of(rule):
        row("setting:", f"{setting} ({kind}, default {default}): {text}")
    for violation in violations[:1]:
        row("reports:", violation.message)
    row("fix:", rule.fix)
    row("exempt:", "in the fleet file, with a reason, an approver and an expiry date")
    out.print(exemption_text(rule, violations), markup=False, end="")
