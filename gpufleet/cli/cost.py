"""`gpufleet cost`: the cost of a fleet in groups, and its difference from another one."""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpufleet.cli.arguments import Environment, Json
from gpufleet.cli.console import emit_json, err, out
from gpufleet.cli.html_file import HtmlFile, require_own_page
from gpufleet.errors import InputError
from gpufleet.workspace import Workspace

if TYPE_CHECKING:
    from gpufleet.checks import ValidFleet


def register(app: typer.Typer) -> None:
    """Add the command of this module to `app`."""
    app.command()(cost)


def now() -> dt.datetime:
    """Return the current time in UTC."""
    return dt.datetime.now(tz=dt.UTC)


def cost(
    environment: Environment,
    by: Annotated[
        str, typer.Option("--by", help="site, group, team, kind, option, or the key of a tag.")
    ] = "group",
    compare: Annotated[
        str | None,
        typer.Option("--compare", help="A branch, tag or commit, or the path of another fleet file."),
    ] = None,
    html: HtmlFile = None,
    json: Json = False,
) -> None:
    """Show the cost per month and hour in groups; with --compare the difference line by line.

    A month has 730 hours. Unknown prices are listed and never count as 0. The figures are those of `plan`.
    """
    from gpufleet.economics.cost import GROUPINGS, Grouping, compare_costs, group_by_tag, group_cost
    from gpufleet.economics.cost_json import changes_to_json, groups_to_json
    from gpufleet.report.economics_cost import show_cost, show_cost_changes

    if html is not None:
        require_own_page(html)
    found = _validated(Workspace.open(environment))
    known: dict[str, Grouping] = {name: name for name in GROUPINGS}
    if by in known:
        groups = group_cost(found.cost, known[by])
    else:
        groups = group_by_tag(found.cost, found.plan, by)
        if not any(groups):
            raise InputError(
                f"--by {by}: no resource of the fleet has the tag {by!r}",
                remedy=f"write one of {', '.join(GROUPINGS)}, or a tag of the fleet file",
            )
    before = None if compare is None else _compared(compare, environment)
    changes = () if before is None else compare_costs(before.cost, found.cost)
    if html is not None:
        from gpufleet.files import write_atomically
        from gpufleet.report.economics_cost_page import cost_page

        page = cost_page(found.plan, found.cost, by, groups, changes, compare, now().date())
        write_atomically(html, page)
        err.print(f"written: {html}", soft_wrap=True)
    if json:
        document = groups_to_json(found.cost, by, groups)
        emit_json(document | ({} if before is None else changes_to_json(before.cost, found.cost, changes)))
        return
    show_cost(found.cost, by, groups, out)
    if before is not None:
        show_cost_changes(before.cost, found.cost, changes, compare or "", out)


def _validated(workspace: Workspace) -> ValidFleet:
    from gpufleet.checks import validate

    return validate(workspace.target, root=workspace.root, bought=workspace.bought_blocks)


def _compared(other: str, environment: str) -> ValidFleet:
    """Return the fleet of another file, or of the same environment at another commit."""
    if Path(other).suffix in {".yaml", ".yml"}:
        return _validated(Workspace.open(other))
    from gpufleet.checks import validate
    from gpufleet.verdict.git import GitRepository

    workspace = Workspace.open(environment)
    if workspace.is_path:
        raise InputError(
            "--compare with a commit needs the name of an environment",
            remedy="or write the path of a fleet file",
        )
    repository = GitRepository(workspace.root)
    revision = repository.revision(other)
    with tempfile.TemporaryDirectory() as folder:
        root = repository.export(
            revision, Path(folder) / "base", lambda name: name.startswith("stacks/") or name == "Pulumi.yaml"
        )
        return validate(workspace.target, root=root)
