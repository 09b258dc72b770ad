"""`gpufleet new`: create a fleet repository without a fork of gpufleet."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated

import typer

from gpufleet.cli.console import emit_json, out
from gpufleet.cli.init import Template
from gpufleet.errors import InputError

SANDBOX = "sandbox"


def register(app: typer.Typer) -> None:
    """Add the command of this module to `app`."""
    app.command()(new)


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the new repository.")],
    template: Annotated[Template, typer.Option(help="The template of its environment.")] = Template.hybrid,
    environment: Annotated[str, typer.Option(help="The name of its environment.")] = "prod",
    fleet: Annotated[str, typer.Option(help="The name of the fleet.")] = "atlas",
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Create a fleet repository: two environments, the Pulumi project, rules, workflows, a pinned
    requirement.

    It needs no checkout of gpufleet. Existing files are not overwritten.
    """
    from gpufleet.catalog import load_catalog
    from gpufleet.environments import Choices, draft_environment, last_day
    from gpufleet.environments.repository import refuse_used, write_repository

    root = folder.absolute()
    refuse_used(root)
    if environment == SANDBOX:
        raise InputError(
            f"the environment {SANDBOX!r} is always created",
            remedy="use another name for --environment",
        )
    catalog, today = load_catalog(), dt.datetime.now(tz=dt.UTC).date()
    environments = {}
    for name, start in ((SANDBOX, SANDBOX), (environment, template.value)):
        expires = last_day(root, name, today)
        draft = draft_environment(Choices(start), name, fleet, catalog, expires=expires)
        environments[name] = (start, draft.text)
    written = write_repository(root, fleet, environments)
    if json:
        emit_json({"folder": str(root), "written": [str(path) for path in written]})
        return
    for path in written:
        out.print(f"wrote {folder / path}", soft_wrap=True)
    out.print(f"next: read {folder / 'README.md'}, then", soft_wrap=True)
    for command, why in (
        (
            f"cd {folder} && git init && git add . && git commit -m 'A new fleet'",
            "needed by `check --base`",
        ),
        ("gpufleet up sandbox", "deploy to the emulated AWS on this machine"),
        (f"gpufleet check {environment}", "check the rules on a preview without an account"),
    ):
        out.print(f"  {command}  # {why}", soft_wrap=True, markup=False)
