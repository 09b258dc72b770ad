"""Entry point of the command `gpufleet`. Handles interruptions, also while modules load."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import shlex
import signal
import sys
from types import FrameType
from typing import NoReturn

_INTERRUPTED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main() -> int:
    """Run the command line. Returns its exit code."""
    # Hardly any object of a command becomes garbage, and searches for some take a tenth of its time.
    gc.set_threshold(200_000, 20, 100)
    # Keep SIGINT ignored if the caller ignores it (`nohup`).
    answered = [sign for sign in _SIGNALS if signal.getsignal(sign) is not signal.SIG_IGN]
    for sign in answered:
        signal.signal(sign, _end)
    _prepare(sys.argv[1:])
    from gpufleet.cli.main import main as run

    try:
        code = run()
        # Only helper processes still run, which no command waits for.
        for sign in answered:
            signal.signal(sign, lambda *_: os._exit(code))
    except KeyboardInterrupt:
        # `run` no longer handles it.
        _end()
    if code == _INTERRUPTED:
        _leave()
    # The interpreter's end would search all objects for garbage.
    gc.freeze()
    return code


def _prepare(arguments: list[str]) -> None:
    """Begin the imports of the processes of a check, which take longer than all others, before this one's."""
    if arguments[:1] == ["check"] and not {"-h", "--help"} & set(arguments):
        from gpufleet.engine import forks
        from gpufleet.preload import ACCOUNT

        forks.prepare(os.environ, ACCOUNT)


def _leave() -> NoReturn:
    """Exit immediately with code 130.

    `python -m` kills itself with SIGINT if the exception passed through `exec` of a text, which dataclasses
    use, even if it was caught (`unhandled_keyboard_interrupt` in CPython's pythonrun.c). Python would also
    wait for threads.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(_INTERRUPTED)


def _end(_signum: int = 0, _frame: FrameType | None = None) -> NoReturn:
    """Exit before a command runs. Must not import modules, since an import may be interrupted."""
    again = shlex.join(["gpufleet", *sys.argv[1:]])
    # New line after the terminal's `^C`.
    line = "\n" if os.isatty(2) else ""
    os.write(2, f"{line}interrupted; run the same command again: `{again}`\n".encode())
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
