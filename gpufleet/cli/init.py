"""`gpufleet init`: a new environment with a commented fleet file that validates."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from gpufleet.cli.console import emit_json, out
from gpufleet.cli.context import find_root


class Template(StrEnum):
    """What the new fleet file starts from."""

    sandbox = "sandbox"
    cloud = "cloud"
    onprem = "onprem"
    hybrid = "hybrid"


def register(app: typer.Typer) -> None:
    """Add the command of this module to `app`."""
    app.command()(init)


def init(
    environment: Annotated[str, typer.Argument(help="The new environment's name.")],
    template: Annotated[Template, typer.Option(help="What to start from.")] = Template.hybrid,
    fleet: Annotated[str, typer.Option(help="The fleet's name.")] = "atlas",
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Write a new environment from a commented template.

    That is stacks/<env>/fleet.yaml and its stack configuration; never over an existing file.
    """
    from gpufleet.spec.init import write_environment

    root = find_root()
    written = write_environment(root, environment, template.value, fleet)
    if json:
        emit_json({"written": [str(path) for path in written]})
        return
    for path in written:
        out.print(f"wrote {path.relative_to(root)}")
    out.print(f"next: read it, then `gpufleet validate {environment}` and `gpufleet plan {environment}`")
