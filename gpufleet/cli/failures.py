"""What ended a command early, said in the user's words: message, remedy and exit code."""

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

# What an interrupted command leaves, by its words, where no `InterruptionError` says more.
_KEPT = {
    "up": "the state is kept",
    "refresh": "the state is kept",
    "destroy": "the state is kept",
    "check": "nothing was changed",
    "verify": "nothing was changed",
    "report": "no page was written",
    "init": "nothing was written",
    "catalog refresh": "the catalog is as it was",
    "sandbox start": "what the emulated AWS holds is kept",
    "rack up": "downloads are kept",
}
_GOES_ON = frozenset({"up", "refresh", "destroy"})

# What a machine says when it is full, read-only, not ours or not what we take it for, and what helps.
# Any other OSError is a fault of gpufleet's.
_HOST_FAULTS = {
    errno.ENOSPC: "make room on that disk, then run the same command again",
    errno.EDQUOT: "make room in your quota, then run the same command again",
    errno.EROFS: "that file system is read-only: work in a checkout that can be written",
    errno.EACCES: "give yourself permission to it (who owns it? `ls -ld` says)",
    errno.EPERM: "give yourself permission to it (who owns it? `ls -ld` says)",
    errno.ENOTDIR: "a file is where a folder belongs: move it away",
    errno.EEXIST: "something else is at that place: move it away",
    errno.EISDIR: "a folder is where a file belongs: move it away",
    errno.EIO: "the disk or the network drive fails: see the system's log",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`), or pass a smaller --parallel",
    errno.ENFILE: "the machine has too many files open: end something else",
}

_NOT_OURS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def report(error: BaseException, arguments: Sequence[str]) -> int:
    """Say on stderr (as JSON on stdout with --json) what `error` means; the exit code for it."""
    as_json = "--json" in arguments
    if is_recorded() and not isinstance(error, KeyboardInterrupt):
        # Libraries make errors of their own of an interruption. Ours may say of a state what must be known.
        if isinstance(error, GpufleetError) and not as_json:
            print_error(error)
        return interrupted(KeyboardInterrupt(), arguments)
    if isinstance(error, BrokenPipeError):
        # Only what reads has its output piped away in the middle; runs print through PipeConsole.
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
    said = _in_words(error) or _internal(error)
    if as_json:
        emit_json(error_json(said))
    else:
        print_error(said)
    return int(said.exit_code)


def interrupted(error: KeyboardInterrupt, arguments: Sequence[str]) -> int:
    """Print in one line what is kept and the command that goes on; the exit code of an interruption."""
    known = error if isinstance(error, InterruptionError) else None
    words = [each for each in arguments if not each.startswith("-")]
    name = next((name for name in (" ".join(words[:2]), *words[:1]) if name in _KEPT), "")
    kept = known.kept if known else _KEPT.get(name, "")
    more = [each for each in (known.more if known else ()) if each not in arguments]
    same = shlex.join(["gpufleet", *arguments, *more])
    said = "; ".join(filter(None, ("interrupted", kept)))
    remedy = f"run the same command {'to go on' if known or name in _GOES_ON else 'again'}: `{same}`"
    if "--json" in arguments:
        emit_json({"error": said, "remedy": remedy, "exit_code": int(ExitCode.INTERRUPTED)})
    else:
        if is_terminal(errors.file):
            # Below the `^C` of the terminal, and the question that was not answered.
            errors.print()
        errors.print(f"{said}; {remedy}", markup=False, soft_wrap=True)
    return int(ExitCode.INTERRUPTED)


def _in_words(error: BaseException) -> GpufleetError | None:
    """The error as one of ours; None for a fault of gpufleet itself."""
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
            f"this checkout cannot be written: {error.filename}: {error.strerror}",
            remedy="work in a checkout of yours; validate, plan and check need none that can be written",
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
    """The help text of a group that was called without a command: click wraps it in an error."""
    if isinstance(error, TyperException) and type(error).__name__ == "NoArgsIsHelpError":
        return error.format_message()
    return None


def _option_message(error: TyperException) -> str:
    # Typer passes on the prefix that pydantic puts before a ValueError's own words.
    return error.format_message().replace("Value error, ", "", 1)


def _command_path(error: TyperException) -> str:
    context = getattr(error, "ctx", None)
    return context.command_path if context is not None else "gpufleet"


def _internal(error: BaseException) -> GpufleetError:
    """A fault of ours: its traceback goes to a log, or to stderr where no log can be written."""
    what = f"internal error ({type(error).__name__}: {error})"
    try:
        with tempfile.NamedTemporaryFile("w", prefix="gpufleet-", suffix=".log", delete=False) as log:
            traceback.print_exception(error, file=log)
    except OSError:
        traceback.print_exception(error, file=sys.stderr)
        return GpufleetError(what, remedy="report it with the lines above")
    return GpufleetError(f"{what}; the details are in {log.name}", remedy="report it with that file")
