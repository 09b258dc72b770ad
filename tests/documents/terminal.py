"""Run a command in a terminal of a given width; its output and exit code."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# A cursor movement starts a new line; colors are ignored.
_MOVED = re.compile(r"\r+\n|\r|\x1b\[[0-9;]*[A-HJ]")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]")
_QUESTION = re.compile(rb"\[y/N\]:? *$")
ROWS = 40


@dataclass(frozen=True, slots=True)
class TerminalOutput:
    """Output of a terminal; `lines` are without colors and cursor movements."""

    code: int
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def words(self) -> set[str]:
        """Words between spaces, without commas of lists and lines of tables."""
        return {word.rstrip(",;") for line in self.lines for word in line.split() if word.strip("─━│")}


def in_terminal(
    command: str, *, width: int, cwd: Path, env: Mapping[str, str], timeout_s: float = 300
) -> TerminalOutput:
    """Run a shell command in a terminal; its questions are answered with y."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (ROWS, width))
    full = {**env, "TERM": "xterm-256color"}
    full.pop("COLUMNS", None)
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=cwd,
        env=full,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    sent, deadline = b"", time.monotonic() + timeout_s
    try:
        while True:
            ready, _, _ = select.select([master], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                os.killpg(process.pid, signal.SIGKILL)
                raise TimeoutError(f"{command}: not done after {timeout_s:.0f} s:\n{sent[-2000:].decode()}")
            try:
                data = os.read(master, 65536)
            except OSError:
                # Linux reports EIO after the last writer has closed the other end.
                break
            if not data:
                break
            sent += data
            if _QUESTION.search(sent):
                os.write(master, b"y\n")
                sent += b" "
    finally:
        code = process.wait()
        os.close(master)
    text = _CONTROL.sub("", _MOVED.sub("\n", sent.decode("utf-8", "replace")))
    return TerminalOutput(code, tuple(text.splitlines()))
