"""Message, remedy and exit code for errors and interruptions that end a command."""

from __future__ import annotations

import errno
import shlex
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

import typer
from typer.exceptions import TyperException

from gpufleet.cli import streams
from gpufleet.cli.console import emit_json, error_json, errors, is_terminal, print_error
from gpufleet.errors import CloudError, ExitCode, GpufleetError, InputError, InterruptionError, RefusedError
from gpufleet.interruption import is_recorded
from gpufleet.workspace import find_root

_STOPPED = "stopped; nothing was changed"

# Command -> what is kept after an interruption, unless an `InterruptionError` says more.
_KEPT = {
    "up": "the state is kept",
    "refresh": "the state is kept",
    "destroy": "the state is kept",
    "check": "nothing was changed",
    "verify": "nothing was changed",
    "report": "no page was written",
    "init": "nothing was written",
    "catalog refresh": "the catalog is unchanged",
    "sandbox start": "the resources of the emulated AWS are kept",
    "rack up": "downloads are kept",
}
_GOES_ON = frozenset({"up", "refresh", "destroy"})

# Remedies for OSErrors caused by the machine. All others are internal errors.
_HOST_FAULTS = {
    errno.ENOSPC: "free space on that disk, then run the command again",
    errno.EDQUOT: "free space in your quota, then run the command again",
    errno.EROFS: "the file system is read-only: use a writable checkout",
    errno.EACCES: "change its permissions or owner (`ls -ld` prints them)",
    errno.EPERM: "change its permissions or owner (`ls -ld` prints them)",
    errno.ENOTDIR: "a file is in the place of a folder: rename or remove it",
    errno.EEXIST: "another file is in that place: rename or remove it",
    errno.EISDIR: "a folder is in the place of a file: rename or remove it",
    errno.EIO: "the disk or network drive has errors: see the system log",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`), or use a smaller --parallel",
    errno.ENFILE: "the machine has too many open files: stop other processes",
}

_NOT_OURS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def report(error: BaseException, arguments: Sequence[str]) -> int:
    """Print an error on stderr (with --json on stdout) and return its exit code."""
    as_json = "--json" in arguments
    if is_recorded() and not isinstance(error, KeyboardInterrupt):
        # Libraries convert an interruption into their own errors. Errors of gpufleet may describe the state.
        if isinstance(error, GpufleetError) and not as_json:
            print_error(error)
        return interrupted(KeyboardInterrupt(), arguments)
    if isinstance(error, BrokenPipeError):
        # Only reading commands get here; runs print through PipeConsole.
        streams.silence(sys.stdout)
        return int(ExitCode.DONE)
    usage = _usage(error)
    if usage is not None and not as_json:
        errors.print(usage, markup=False, soft_wrap=True)
        return int(ExitCode.BAD_INPUT)
    if isinstance(error, typer.Abort) and not as_json:
        errors.print(_STOPPED)
        return int(ExitCode.REFUSED)
    if isinstance(error, KeyboardInterrupt):
        return interrupted(error, arguments)
    failure = _in_words(error) or _internal(error)
    if as_json:
        emit_json(error_json(failure))
    else:
        print_error(failure)
    return int(failure.exit_code)


def interrupted(error: KeyboardInterrupt, arguments: Sequence[str]) -> int:
    """Print what is kept and the command that continues, and return the exit code of an interruption."""
    known = error if isinstance(error, InterruptionError) else None
    words = [each for each in arguments if not each.startswith("-")]
    name = next((name for name in (" ".join(words[:2]), *words[:1]) if name in _KEPT), "")
    kept = known.kept if known else _KEPT.get(name, "")
    more = [each for each in (known.more if known else ()) if each not in arguments]
    same = shlex.join(["gpufleet", *arguments, *more])
    message = "; ".join(filter(None, ("interrupted", kept)))
    remedy = f"run the same command {'to continue' if known or name in _GOES_ON else 'again'}: `{same}`"
    if "--json" in arguments:
        emit_json({"error": message, "remedy": remedy, "exit_code": int(ExitCode.INTERRUPTED)})
    else:
        if is_terminal(errors.file):
            # New line after the terminal's `^C` or an unanswered question.
            errors.print()
        errors.print(f"{message}; {remedy}", markup=False, soft_wrap=True)
    return int(ExitCode.INTERRUPTED)


def _in_words(error: BaseException) -> GpufleetError | None:
    """Return the error as a GpufleetError, None for an internal error."""
    if isinstance(error, GpufleetError):
        return error
    if isinstance(error, typer.Abort):
        return RefusedError(_STOPPED)
    if isinstance(error, TyperException):
        return InputError(_option_message(error), remedy=f"see `{_command_path(error)} --help`")
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return InputError(f"{str(error.filename)[:80]}...: {error.strerror}", remedy="use a shorter name")
    if isinstance(error, OSError) and error.errno in _NOT_OURS and _is_in_checkout(error.filename):
        return InputError(
            f"cannot write to the checkout: {error.filename}: {error.strerror}",
            remedy="use a writable checkout; only validate, plan and check work without one",
        )
    if isinstance(error, OSError) and error.errno in _HOST_FAULTS:
        place = f"{error.filename}: " if error.filename else ""
        return CloudError(f"{place}{error.strerror}", remedy=_HOST_FAULTS[error.errno])
    return None


def _is_in_checkout(path: object) -> bool:
    try:
        return isinstance(path, str) and Path(path).absolute().is_relative_to(find_root())
    except (GpufleetError, OSError):
        return False


def _usage(error: BaseException) -> str | None:
    """Return the help text of a group called without a command, which click wraps in an error."""
    if isinstance(error, TyperException) and type(error).__name__ == "NoArgsIsHelpError":
        return error.format_message()
    return None


def _option_message(error: TyperException) -> str:
    # Remove the prefix that pydantic adds to the message of a ValueError.
    return error.format_message().replace("Value error, ", "", 1)


def _command_path(error: TyperException) -> str:
    context = getattr(error, "ctx", None)
    return context.command_path if context is not None else "gpufleet"


def _internal(error: BaseException) -> GpufleetError:
    """Return an internal error. Its traceback goes to a log, or to stderr if no log can be written."""
    what = f"internal error ({type(error).__name__}: {error})"
    try:
        with tempfile.NamedTemporaryFile("w", prefix="gpufleet-", suffix=".log", delete=False) as log:
            traceback.print_exception(error, file=log)
    except OSError:
        traceback.print_exception(error, file=sys.stderr)
        return GpufleetError(what, remedy="report it with the lines above")
    return GpufleetError(f"{what}; the details are in {log.name}", remedy="report it with that file")
