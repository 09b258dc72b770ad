"""gpufleet in its own terminal, as a user runs it."""

from __future__ import annotations

import math
import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.conftest import Checkout

_PATIENCE_S = 300.0
_MOVES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A gpufleet process in its own terminal."""

    def __init__(
        self, checkout: Checkout, *arguments: str, columns: int = 200, module: str = "gpufleet.cli.entry"
    ) -> None:
        self._columns = columns
        self._text = b""
        self.pid, self._terminal = pty.fork()
        if not self.pid:
            os.chdir(checkout.root)
            env = os.environ | checkout.env | {"COLUMNS": str(columns), "TERM": "xterm"}
            command = [sys.executable, "-m", module, *arguments]
            os.execve(command[0], command, env)

    @property
    def text(self) -> str:
        """Output so far, without cursor movements."""
        while select.select([self._terminal], [], [], 0.05)[0]:
            try:
                part = os.read(self._terminal, 65536)
            except OSError:
                break
            if not part:
                break
            self._text += part
        return _MOVES.sub("", self._raw).replace("\r", "\n")

    @property
    def rows(self) -> int:
        """Number of written terminal rows: long lines take several, and some are erased."""
        lines = [
            line.rstrip("\r").rpartition("\r")[2] for line in _MOVES.sub("", self._raw).rstrip().split("\n")
        ]
        taken_back = sum(int(count or 1) for count in re.findall(r"\x1b\[(\d*)A", self._raw))
        return sum(max(1, math.ceil(len(line) / self._columns)) for line in lines) - taken_back

    @property
    def _raw(self) -> str:
        return self._text.decode(errors="replace")

    def wait(self, until: Callable[[], bool]) -> None:
        """Read until a condition holds."""
        end = time.monotonic() + _PATIENCE_S
        while not until():
            assert time.monotonic() < end, self.text[-2000:]
            _ = self.text

    def ctrl_c(self) -> None:
        """Press Ctrl-C: the signal goes to all processes of the terminal."""
        os.write(self._terminal, b"\x03")

    def type(self, text: str) -> None:
        """Answer a question."""
        os.write(self._terminal, text.encode())

    def ended(self) -> int:
        """Its exit code, after it has ended."""
        status: list[int] = []

        def over() -> bool:
            pid, code = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                status.append(code)
            return bool(pid)

        try:
            self.wait(over)
        except AssertionError:
            os.kill(self.pid, signal.SIGKILL)
            raise
        return os.waitstatus_to_exitcode(status[0])

    def catches(self, sign: signal.Signals) -> bool:
        """Whether it handles a signal."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (sign - 1) & 1)
        return False
