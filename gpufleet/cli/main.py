"""`gpufleet`: assembles the commands and turns every outcome into a message and an exit code."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import traceback
from typing import NoReturn

import typer
from typer.exceptions import TyperException

import gpufleet
from gpufleet.cli import catalog, init, inspect, inventory, run, sandbox, state
from gpufleet.cli.console import emit_json, err, error_json, print_error
from gpufleet.errors import ExitCode, GpufleetError

app = typer.Typer(
    name="gpufleet",
    help="Infrastructure as code for hybrid GPU fleets: cloud node groups and DGX/HGX racks from one file.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gpufleet {gpufleet.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    pass


init.register(app)
inspect.register(app)
run.register(app)
inventory.register(app)
app.add_typer(state.app, name="state")
app.add_typer(catalog.app, name="catalog")
app.add_typer(sandbox.app, name="sandbox")


def _interrupt(_signum: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def main(argv: list[str] | None = None) -> int:
    """Run one command. Returns the exit code of `gpufleet.errors.ExitCode`; never a traceback."""
    arguments = sys.argv[1:] if argv is None else argv
    as_json = "--json" in arguments
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        result = app(args=arguments, standalone_mode=False)
        return int(result) if isinstance(result, int) else int(ExitCode.DONE)
    except GpufleetError as error:
        if as_json:
            emit_json(error_json(error))
        else:
            print_error(error)
        return int(error.exit_code)
    except typer.Abort:
        err.print("stopped")
        return int(ExitCode.REFUSED)
    except TyperException as error:
        err.print(f"error: {error.format_message()}", markup=False, soft_wrap=True)
        err.print("  fix: see `gpufleet --help`", markup=False)
        return int(ExitCode.BAD_INPUT)
    except KeyboardInterrupt:
        err.print("interrupted; what was done is in the state, and the next run goes on from it")
        return int(ExitCode.CLOUD_FAILURE)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.DONE)
    except Exception as error:
        return _internal(error, as_json)


def _internal(error: Exception, as_json: bool) -> int:
    with tempfile.NamedTemporaryFile("w", prefix="gpufleet-", suffix=".log", delete=False) as log:
        traceback.print_exception(error, file=log)
    message = f"internal error ({type(error).__name__}: {error}); the details are in {log.name}"
    if as_json:
        emit_json(
            {"error": message, "remedy": "report it with that file", "exit_code": int(ExitCode.INTERNAL)}
        )
    else:
        err.print(f"error: {message}\n  fix: report it with that file", markup=False, soft_wrap=True)
    return int(ExitCode.INTERNAL)


if __name__ == "__main__":
    sys.exit(main())
