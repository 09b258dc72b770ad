"""Where the command `gpufleet` begins: an interruption is answered from here on, also while modules load."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from types import FrameType
from typing import NoReturn

_INTERRUPTED = 130


def main() -> int:
    """Run the command line. Returns its exit code."""
    before = {sign: signal.signal(sign, _end) for sign in (signal.SIGINT, signal.SIGTERM)}
    from gpufleet.cli.main import main as run

    try:
        for sign, handler in before.items():
            signal.signal(sign, handler)
        code = run()
        # What is left is the end of helper processes, which need nobody to wait for them.
        for sign in before:
            signal.signal(sign, lambda *_: os._exit(code))
    except KeyboardInterrupt:
        # Before `run` answers interruptions, after it has, or while it does.
        _end()
    return code


def _end(_signum: int = 0, _frame: FrameType | None = None) -> NoReturn:
    """Nothing is under way. Imports nothing: the module may be the one whose import is interrupted."""
    again = shlex.join(["gpufleet", *sys.argv[1:]])
    os.write(2, f"interrupted; run the same command again: `{again}`\n".encode())
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
