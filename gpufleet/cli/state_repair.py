"""`gpufleet state repair`: restore a damaged state, and resolve pending operations of an interrupted run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpufleet.cli.arguments import CloudOption, Environment, Json
from gpufleet.cli.console import emit_json, err, is_terminal, note, out
from gpufleet.containment import shown_in
from gpufleet.errors import ExitCode, InputError
from gpufleet.workspace import Workspace

if TYPE_CHECKING:
    from gpufleet.engine.embedded.repair import Examination, StateCopy

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def state_of(environment: str, cloud: str | None) -> tuple[str, Path]:
    """Return the name of the environment and the path of its state in the embedded engine."""
    workspace = Workspace.open(environment)
    name = workspace.environment()
    return name, workspace.state_file(name, workspace.cloud(name, cloud))


def confirm(question: str, *, yes: bool, json: bool, what: str = "a change of the state") -> None:
    """Ask for confirmation before the state, or `what`, is changed, unless `yes` is set."""
    if yes:
        return
    if json or not sys.stdin.isatty() or not is_terminal(err.file):
        raise InputError(
            f"{what} needs confirmation, and confirmation needs a terminal",
            remedy="pass --yes",
        )
    if not typer.confirm(question, err=True):
        raise typer.Abort


def repair(
    environment: Environment,
    source: Annotated[
        Path | None, typer.Option("--from", help="The copy to restore; default: the last valid one.")
    ] = None,
    adopt: Annotated[
        str, typer.Option("--adopt", help="URN=ID: an interrupted creation that succeeded.")
    ] = "",
    forget: Annotated[
        str, typer.Option("--forget", help="URN: an interrupted creation that did not happen.")
    ] = "",
    cloud: CloudOption = None,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """List the copies of the state, and restore the last valid one if the state is damaged.

    The damaged file is kept under another name, and the journal of an interrupted run is merged. This applies
    only to the embedded engine; the Pulumi CLI has `pulumi state repair`.
    """
    name, state_file = state_of(environment, cloud)
    if adopt or forget:
        return _settle(state_file, adopt, forget, source, json=json)
    from gpufleet.engine.embedded.repair import examine

    found = examine(state_file)
    if found.is_whole and source is None:
        if json:
            emit_json(_report(found))
        else:
            _print(found)
            out.print(f"the state of {name} is valid: nothing to repair", markup=False)
        return int(ExitCode.DONE)
    return _restore(found, name, state_file, source, yes=yes, json=json)


def _settle(state_file: Path, adopt: str, forget: str, source: Path | None, *, json: bool) -> int:
    from gpufleet.engine.embedded import admin

    if source is not None or (adopt and forget):
        raise InputError("--from, --adopt and --forget exclude each other", remedy="use one of them")
    urn, equals, identifier = adopt.rpartition("=")
    if adopt and not (equals and urn and identifier):
        raise InputError(f"--adopt {adopt}: a URN and an ID are needed", remedy="write --adopt '<urn>=<id>'")
    if adopt:
        admin.adopt(state_file, urn, identifier)
    else:
        admin.forget(state_file, forget)
    if json:
        emit_json({"adopted": urn, "id": identifier} if adopt else {"forgotten": forget})
    elif adopt:
        out.print(f"the next run reads {identifier} and adopts it", markup=False, soft_wrap=True)
    else:
        out.print("the next run creates it, if it is still in the program")
    return int(ExitCode.DONE)


def _restore(
    found: Examination, name: str, state_file: Path, source: Path | None, *, yes: bool, json: bool
) -> int:
    from gpufleet.engine.embedded.repair import repair as repair_state

    if source is None:
        if found.best is None:
            raise InputError(
                f"no copy of the state of {name} can be read",
                remedy="restore an export with `gpufleet state import`",
            )
        source = found.best.path
    elif not source.is_absolute() and not source.exists():
        source = state_file.with_name(source.name)
    if not source.is_file():
        raise InputError(
            f"there is no copy {source}", remedy=f"`gpufleet state repair {name}` lists all copies"
        )
    if not json:
        _print(found)
    confirm(f"Make {source.name} the state of {name}?", yes=yes, json=json)
    done = repair_state(state_file, source)
    if json:
        kept = [str(path) for path in done.kept]
        emit_json(
            {"from": str(source), "resources": done.resources, "brought_in": done.brought_in, "kept": kept}
        )
        return int(ExitCode.DONE)
    shown = shown_in(state_file, Path.cwd())
    out.print(f"{shown}: {done.resources} resources, from {source.name}", markup=False, soft_wrap=True)
    for urn in done.brought_in:
        out.print(f"   merged from the interrupted run: {urn}", markup=False, soft_wrap=True)
    for path in done.kept:
        out.print(f"   kept: {shown_in(path, Path.cwd())}", markup=False, soft_wrap=True)
    note("next: `gpufleet refresh` compares the state with the cloud")
    return int(ExitCode.DONE)


def _print(found: Examination) -> None:
    for copy in (found.current, *found.backups):
        if copy is not None:
            out.print(
                f"{copy.path.name}  {copy.written:%Y-%m-%d %H:%M:%S} UTC  {_copy_text(copy)}", markup=False
            )
    if found.current is None:
        out.print("the state file is missing" if found.backups else "there is no state yet")
    if found.journal:
        out.print(f"the journal of an interrupted run is {found.journal}", markup=False)


def _copy_text(copy: StateCopy) -> str:
    if copy.fault:
        return f"damaged: {copy.fault}"
    pending = f", {copy.pending} operations pending" if copy.pending else ""
    gaps = f", {len(copy.gaps)} gaps: {copy.gaps[0]}" if copy.gaps else ""
    return f"{copy.resources} resources{pending}{gaps}"


def _report(found: Examination) -> dict[str, Any]:
    copies = [copy for copy in (found.current, *found.backups) if copy is not None]
    return {
        "whole": found.is_whole,
        "journal": found.journal,
        "copies": [
            {
                "file": str(copy.path),
                "written": copy.written.isoformat(),
                "resources": copy.resources,
                "pending": copy.pending,
                "fault": copy.fault,
                "gaps": list(copy.gaps),
            }
            for copy in copies
        ],
    }
