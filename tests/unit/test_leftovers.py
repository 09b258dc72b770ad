"""Processes left by tests are found by their mark, whatever their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from tests import leftovers


def test_leftover_process_is_named_until_it_ends() -> None:
    env = os.environ | {leftovers.MARK: "one"}
    reported = subprocess.run(
        ["sh", "-c", "setsid sleep 60 >/dev/null 2>&1 & echo $!"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    number = int(reported.stdout)
    try:
        assert leftovers.at_work("another") == {}
        # Until the shell's child has become the program, it has the shell's name.
        deadline = time.monotonic() + 20
        while leftovers.at_work("one").get(number) != "sleep 60":
            assert time.monotonic() < deadline
    finally:
        os.kill(number, signal.SIGKILL)
    while leftovers.at_work("one"):
        assert time.monotonic() < deadline
