"""Where the command `gpufleet` begins: an interruption is answered from here on, also while modules load."""

from __future__ import annotations

import atexit
import contextlib
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
    # A SIGINT that the caller ignores (`nohup`) stays ignored.
    answered = [sign for sign in _SIGNALS if signal.getsignal(sign) is not signal.SIG_IGN]
    for sign in answered:
        signal.signal(sign, _end)
    from gpufleet.cli.main import main as run

    try:
        code = run()
        # What is left is the end of helper processes, which no command waits for.
        for sign in answered:
            signal.signal(sign, lambda *_: os._exit(code))
    except KeyboardInterrupt:
        # Where `run` does not answer it any more.
        _end()
    if code == _INTERRUPTED:
        _leave()
    return code


def _leave() -> NoReturn:
    """End with 130 for certain, and at once.

    `python -m` kills itself with SIGINT if the exception has come through an `exec` of a text, as dataclasses
    are made with, whoever caught it (`unhandled_keyboard_interrupt` in CPython's pythonrun.c). And Python
    would wait for threads.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(_INTERRUPTED)


def _end(_signum: int = 0, _frame: FrameType | None = None) -> NoReturn:
    """Nothing is under way. Imports nothing: the module may be the one whose import is interrupted."""
    again = shlex.join(["gpufleet", *sys.argv[1:]])
    # Below the `^C` of the terminal.
    line = "\n" if os.isatty(2) else ""
    os.write(2, f"{line}interrupted; run the same command again: `{again}`\n".encode())
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
