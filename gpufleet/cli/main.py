"""`gpufleet`: run one command and convert errors to messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer
from typer.main import get_command

import gpufleet
from gpufleet import interruption
from gpufleet.cli import hints, streams
from gpufleet.cli.commands import LazyGroup, new_app
from gpufleet.cli.console import emit_text, print_error, set_quiet
from gpufleet.cli.failures import interrupted, report
from gpufleet.errors import ExitCode, GpufleetError

_COMPLETE = "_GPUFLEET_COMPLETE"

app = new_app(
    name="gpufleet",
    cls=LazyGroup,
    help="Infrastructure as code for hybrid GPU fleets: cloud node groups and DGX/HGX racks from one file.",
    no_args_is_help=True,
    add_completion=True,
)


def _version(wanted: bool) -> None:
    if wanted:
        emit_text(f"gpufleet {gpufleet.__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="Print errors and the result only."),
) -> None:
    if quiet:
        set_quiet(True)


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code (`gpufleet.errors.ExitCode`). Never prints a traceback."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        streams.prepare()
    except GpufleetError as error:
        print_error(error)
        return int(error.exit_code)
    code = _run(arguments)
    lost = streams.finish()
    if lost is None:
        return code
    print_error(lost)
    return code or int(lost.exit_code)


def _run(arguments: Sequence[str]) -> int:
    with interruption.handle_interruptions():
        code = _outcome(arguments)
        if interruption.is_recorded() and code != ExitCode.INTERRUPTED:
            # The signal arrived even if the command caught its exception.
            code = interrupted(KeyboardInterrupt(), arguments)
    return code


def _outcome(arguments: Sequence[str]) -> int:
    try:
        # `app(...)` would use its own exit codes for an interruption and a closed pipe.
        command = get_command(app)
        if _COMPLETE in os.environ:
            # Only `main` handles shell completion, which ends the process.
            command.main(list(arguments), prog_name="gpufleet")
        hints.forget()
        set_quiet(False)
        with command.make_context("gpufleet", list(arguments)) as context:
            result = command.invoke(context)
        return int(result) if isinstance(result, int) else int(ExitCode.DONE)
    except typer.Exit as ended:
        return ended.exit_code
    except (Exception, KeyboardInterrupt) as error:
        return report(error, arguments)


if __name__ == "__main__":
    sys.exit(main())
