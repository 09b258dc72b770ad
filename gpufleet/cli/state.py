"""`gpufleet state`: what the embedded engine remembers of a stack."""

from __future__ import annotations

import json as json_module
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from gpufleet.cli.commands import new_app
from gpufleet.cli.console import emit_json, emit_text, err, is_terminal, out
from gpufleet.cli.context import Workspace
from gpufleet.errors import InputError

app = new_app(help="Look at the state of an environment's stack.", no_args_is_help=True)
Environment = Annotated[str, typer.Argument(help="An environment or the path of a fleet file.")]
CloudOption = Annotated[str | None, typer.Option("--cloud", help="sandbox or aws; default: the stack's own.")]
EngineOption = Annotated[str, typer.Option("--engine", help="embedded or pulumi.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]


def _export(environment: str, cloud: str | None, engine: str) -> dict[str, object]:
    from gpufleet.engine.select import select_engine

    workspace = Workspace.open(environment)
    name = workspace.environment()
    request = workspace.offline_request(name, workspace.cloud(name, cloud))
    exported = select_engine(engine).export(request)
    if exported is None:
        raise InputError(
            f"{name} has no stack yet in cloud {workspace.cloud(name, cloud)}",
            remedy=f"run `gpufleet up {name}` first",
        )
    return exported


@app.command("list")
def list_resources(
    environment: Environment, cloud: CloudOption = None, engine: EngineOption = "embedded", json: Json = False
) -> None:
    """List the resources in the state: type, name and id.

    In a pipe these are separated by tabs and never cut.
    """
    deployment = _export(environment, cloud, engine)["deployment"]
    resources = deployment.get("resources", []) if isinstance(deployment, dict) else []
    rows = [
        {
            "type": item["type"],
            "name": item["urn"].rsplit("::", 1)[-1],
            "id": item.get("id", ""),
            "urn": item["urn"],
        }
        for item in resources
    ]
    if json:
        emit_json({"resources": rows})
        return
    if not is_terminal(out.file):
        emit_text("".join(f"{row['type']}\t{row['name']}\t{row['id']}\n" for row in rows))
        return
    table = Table(box=None)
    for column in ("type", "name", "id"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(row[key]) for key in ("type", "name", "id")))
    out.print(table)
    err.print(f"{len(rows)} resources")


@app.command()
def export(
    environment: Environment, cloud: CloudOption = None, engine: EngineOption = "embedded", json: Json = False
) -> None:
    """Print the state as `pulumi stack import` takes it.

    Secrets stay encrypted.
    """
    exported = _export(environment, cloud, engine)
    if json:
        emit_json(exported)
    else:
        emit_text(json_module.dumps(exported, indent=2) + "\n")
