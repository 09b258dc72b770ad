"""`gpufleet operate`: day-2 operations on racks. Each stops at the first failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gpufleet.cli import completion
from gpufleet.cli.arguments import Environment, Json
from gpufleet.cli.configure import Check, Diff, Forks, Limit, Site, SshConfig, TransportOption
from gpufleet.cli.console import emit_json, errors, is_terminal, out, print_findings
from gpufleet.cli.hints import hint
from gpufleet.errors import ExitCode, InputError, InterruptionError

if TYPE_CHECKING:
    from gpufleet.racks.operations.operation import Operation

Name = Annotated[
    str,
    typer.Argument(help="An operation; --list prints all.", autocompletion=completion.operations),
]
Options = Annotated[
    list[str] | None, typer.Option("--option", "-o", help="name=value, an option of the operation.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Only unfinished hosts of the last run, with its options.")
]
List = Annotated[bool, typer.Option("--list", help="Show the operations and their options.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before hosts are changed.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command()(operate)


def operate(
    environment: Environment = "",
    operation: Name = "",
    site: Site = "",
    limit: Limit = "",
    option: Options = None,
    check: Check = False,
    diff: Diff = False,
    resume: Resume = False,
    transport: TransportOption = "auto",
    ssh_config: SshConfig = None,
    forks: Forks = None,
    yes: Yes = False,
    list_: List = False,
    json: Json = False,
) -> int:
    """Run one day-2 operation on rack hosts: upgrade_driver, replace_node, add_nodes, and others.

    Exit codes are those of configure: 4 if hosts failed, were unreachable, or were skipped after an earlier
    failure. --resume continues with them.
    """
    from gpufleet.racks.operations.registry import OPERATIONS, find_operation

    if list_:
        return _list(tuple(OPERATIONS.values()), json=json)
    if not environment or not operation:
        raise InputError(
            "operate needs an environment and an operation",
            remedy="`gpufleet operate --list` prints the operations",
        )
    from gpufleet.cli.configure_progress import HostProgress
    from gpufleet.cli.operate_setup import OperateSetup
    from gpufleet.files import write_atomically
    from gpufleet.racks.operations.run import operate as run_operation
    from gpufleet.report.configure_html import configure_page
    from gpufleet.report.configure_text import print_configure

    chosen = find_operation(operation)
    setup = OperateSetup(environment, chosen, site, limit, ssh_config)
    if not json:
        print_findings(setup.findings)
    again = f"`{hint('operate', environment, operation, '--resume')}`"
    # The lock of configure: a parallel operation and configure would undo each other.
    with setup.folder.locked():
        request = setup.operation_request(
            options=tuple(option or ()),
            check=check,
            diff=diff,
            resume=resume,
            transport=transport,
            forks=forks,
        )
        if request is None:
            return _nothing_left(setup.name, operation, json=json)
        if request.changes_hosts and chosen.asks and not yes:
            _confirm(f"This is to {chosen.asks} {len(request.targets)} hosts of {setup.name}. Continue?")
        key = f"{operation}/{setup.name}/{len(request.hosts)} hosts"
        expected = setup.durations.expected(key)
        with HostProgress(out, len(request.hosts), expected=expected, quiet=json) as progress:
            try:
                result = run_operation(request, setup.runs, progress.on_task, progress.on_stage)
            except KeyboardInterrupt:
                raise InterruptionError("finished tasks are kept on the hosts", ["--resume"]) from None
        setup.forget(request, result.states)
        if not result.run.cut_short:
            setup.durations.keep(key, progress.pace.done, progress.pace.elapsed_s)
        if result.run.page is not None:
            write_atomically(result.run.page, configure_page(result.run), mode=0o600)
    if json:
        emit_json(result.to_json())
    else:
        print_configure(result.run, out, diffs=diff)
        if result.left and not check:
            out.print(f"not done: {', '.join(result.left)}", markup=False, soft_wrap=True)
        out.print(f"page: {result.run.page}", markup=False, soft_wrap=True)
        if result.left and not check:
            errors.print(f"  fix: fix the cause, then run {again}", markup=False, soft_wrap=True)
    if result.run.failed_hosts or result.run.cut_short or (result.left and not check):
        return int(ExitCode.CLOUD_FAILURE)
    return int(ExitCode.REFUSED if check and result.run.changed else ExitCode.DONE)


def _confirm(question: str) -> None:
    if not typer.confirm(question, err=not is_terminal(out.file)):
        raise typer.Abort


def _nothing_left(name: str, operation: str, *, json: bool) -> int:
    if json:
        emit_json(
            {
                "operation": operation,
                "environment": name,
                "hosts": {},
                "states": {},
                "duration_s": 0.0,
                "changed": 0,
                "failed_hosts": [],
            }
        )
    else:
        out.print(f"{name}: no hosts of the last {operation} to resume", markup=False)
    return int(ExitCode.DONE)


def _list(known: Sequence[Operation], *, json: bool) -> int:
    from gpufleet.racks.operations.run import operation_to_json

    if json:
        emit_json({"operations": [operation_to_json(item) for item in known]})
        return int(ExitCode.DONE)
    for item in known:
        out.print(f"{item.name}: {item.summary}", markup=False, soft_wrap=True)
        for each in item.options:
            given = (
                "required" if each.required else f"default {each.default}" if each.default is not None else ""
            )
            out.print(
                f"  -o {each.name}=...  {each.help} {f'({given})' if given else ''}".rstrip(),
                markup=False,
                soft_wrap=True,
            )
    return int(ExitCode.DONE)
