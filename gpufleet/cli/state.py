"""`gpufleet state`: list, show, export, import, unlock and repair the state of a stack."""

from __future__ import annotations

import difflib
import json as json_module
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from gpufleet.cli import completion, state_repair
from gpufleet.cli.arguments import CloudOption, Environment, Json
from gpufleet.cli.commands import new_app
from gpufleet.cli.console import emit_json, emit_text, err, is_terminal, note, out
from gpufleet.cli.engine_choice import choose_engine
from gpufleet.cli.state_repair import Yes, confirm, state_of
from gpufleet.containment import shown_in
from gpufleet.errors import InputError
from gpufleet.report.tables import print_table
from gpufleet.visible import visible_line
from gpufleet.workspace import Workspace

app = new_app(help="Inspect, move and repair the state of an environment's stack.", no_args_is_help=True)
EngineOption = Annotated[
    str,
    typer.Option(
        "--engine",
        help="embedded, pulumi, or auto: the one that has the stack.",
        autocompletion=completion.engines,
    ),
]


def _export(environment: str, cloud: str | None, engine: str) -> dict[str, Any]:
    workspace = Workspace.open(environment)
    name = workspace.environment()
    chosen = workspace.cloud(name, cloud)
    request = workspace.offline_request(name, chosen)
    exported = choose_engine(engine, request, chosen).export(request)
    if exported is None:
        raise InputError(
            f"{name} has no stack yet in cloud {chosen}",
            remedy="run `gpufleet up` first",
        )
    return exported


def _resources(environment: str, cloud: str | None, engine: str) -> list[dict[str, Any]]:
    return list(_export(environment, cloud, engine)["deployment"].get("resources") or ())


def _name(resource: dict[str, Any]) -> str:
    return str(resource["urn"].split("::", 3)[-1])


@app.command("list")
def list_resources(
    environment: Environment, cloud: CloudOption = None, engine: EngineOption = "auto", json: Json = False
) -> None:
    """List the resources in the state: type, name and ID.

    In a pipe, each resource is one line of aligned columns without wrapping.
    """
    rows = [
        {"type": item["type"], "name": _name(item), "id": item.get("id", ""), "urn": item["urn"]}
        for item in _resources(environment, cloud, engine)
    ]
    if json:
        emit_json({"resources": rows})
        return
    if not is_terminal(out.file):
        keys = ("type", "name", "id")
        shown = [[visible_line(row[key]) for key in keys] for row in rows]
        wide = [max(map(len, column)) for column in zip(*shown, strict=True)]
        for cells in shown:
            line = "  ".join(cell.ljust(width) for cell, width in zip(cells, wide, strict=True))
            emit_text(line.rstrip() + "\n")
        return
    table = Table(box=None)
    for column in ("type", "name", "id"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(row[key]) for key in ("type", "name", "id")))
    print_table(table, out)
    err.print(f"{len(rows)} resources")


@app.command()
def show(
    environment: Environment,
    resource: Annotated[str, typer.Argument(help="The URN of a resource, or its name if it is unique.")],
    cloud: CloudOption = None,
    engine: EngineOption = "auto",
    json: Json = False,
) -> None:
    """Show one resource of the state.

    Secrets are masked.
    """
    resources = _resources(environment, cloud, engine)
    found = [item for item in resources if resource in (item["urn"], _name(item))]
    urns = list(dict.fromkeys(item["urn"] for item in found))
    if not found:
        names = [*(_name(item) for item in resources), *(item["urn"] for item in resources)]
        near = difflib.get_close_matches(resource, names, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(
            f"the state has no resource {resource!r}",
            remedy=f"{hint}`gpufleet state list` lists all resources",
        )
    if len(urns) > 1:
        raise InputError(
            f"{len(urns)} resources are named {resource!r}", remedy=f"use a URN: {', '.join(urns)}"
        )
    # A replaced resource that is pending deletion has the same URN and is shown last.
    shown = [_masked(item) for item in found]
    if json:
        emit_json({"resources": shown})
    else:
        emit_text("".join(json_module.dumps(item, indent=2) + "\n" for item in shown))


def _masked(value: Any) -> Any:
    from gpufleet.engine.api import SECRET
    from gpufleet.engine.embedded.values import SECRET_SIG, SIG_KEY

    if isinstance(value, dict):
        if value.get(SIG_KEY) == SECRET_SIG:
            return SECRET
        return {key: _masked(item) for key, item in value.items()}
    return [_masked(item) for item in value] if isinstance(value, list) else value


@app.command()
def export(
    environment: Environment, cloud: CloudOption = None, engine: EngineOption = "auto", json: Json = False
) -> None:
    """Print the state in the format of `pulumi stack import`.

    Secrets stay encrypted.
    """
    exported = _export(environment, cloud, engine)
    if json:
        emit_json(exported)
    else:
        emit_text(json_module.dumps(exported, indent=2) + "\n")


@app.command("import")
def import_(
    environment: Environment,
    file: Annotated[
        str, typer.Argument(help="A file of `state export` or `pulumi stack export`; - is stdin.")
    ],
    cloud: CloudOption = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Replace the state of the embedded engine with an export.

    The previous state is kept as a backup. The current passphrase must decrypt the secrets.
    """
    from gpufleet.engine.embedded.admin import check_import, import_state
    from gpufleet.engine.embedded.repair import examine
    from gpufleet.engine.embedded.stored_state import load_state
    from gpufleet.workspace import PROJECT

    name, state_file = state_of(environment, cloud)
    content = sys.stdin.buffer.read() if file == "-" else _content(Path(file))
    after = len(check_import(content, PROJECT, name)["resources"])
    if not examine(state_file).is_whole:
        question = f"The state of {name} is damaged (`gpufleet state repair` may repair it)."
        confirm(f"{question} Replace it with the {after} resources of the export?", yes=yes, json=json)
    elif before := len(load_state(state_file).replayed.resources):
        confirm(f"Replace the {before} resources in the state of {name} by {after}?", yes=yes, json=json)
    done = import_state(state_file, content, PROJECT, name)
    if json:
        kept = [str(path) for path in done.kept]
        counts = {"before": done.before, "after": done.after, "pending": done.pending}
        emit_json({"file": str(state_file), **counts, "kept": kept})
        return
    shown = shown_in(state_file, Path.cwd())
    out.print(f"{shown}: {done.after} resources, {done.before} before", soft_wrap=True, markup=False)
    for path in done.kept:
        out.print(f"   kept: {shown_in(path, Path.cwd())}", markup=False, soft_wrap=True)
    if done.pending:
        out.print(f"{done.pending} operations are pending: the next run checks them")
    note("next: `gpufleet preview` shows the differences")


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", remedy="use a readable file, or - for stdin") from error


@app.command()
def unlock(environment: Environment, cloud: CloudOption = None, json: Json = False) -> None:
    """Show the process that holds the lock of the state.

    The lock is released when its process ends, so a dead run needs no unlock. The lock of a running process
    is not removed.
    """
    from gpufleet.engine.embedded.lock import holder_of
    from gpufleet.engine.errors import StateLockedError

    name, state_file = state_of(environment, cloud)
    holder = holder_of(state_file)
    if holder:
        raise StateLockedError(
            f"the state of {name} is locked by {holder}",
            remedy="wait until it ends, or stop it (`kill -INT <pid>`): it finishes running steps first",
        )
    if json:
        emit_json({"environment": name, "locked": False})
    else:
        out.print(f"the state of {name} is not locked", markup=False)


app.command()(state_repair.repair)
