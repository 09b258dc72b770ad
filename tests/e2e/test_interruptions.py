"""Ctrl-C at a terminal: an answer at once, exit code 130, nothing left running; the next `up` finishes."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpufleet.sandbox import daemon
from tests.e2e.place import Place

pytestmark = pytest.mark.xdist_group("e2e-interruptions")

UP = ("up", "test", "--engine", "embedded", "--yes")
LINE = "run the same command {0}: `gpufleet up test --engine embedded --yes`"
_PATIENCE_S = 120.0


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    daemon.ensure(made.checkout.root / ".gpufleet" / "sandbox")
    yield made
    made.checkout.run("sandbox", "stop")


class Terminal:
    """A gpufleet that a person runs at a terminal of its own."""

    def __init__(self, place: Place, *arguments: str) -> None:
        self._text = b""
        self.pid, self._terminal = pty.fork()
        if not self.pid:
            os.chdir(place.checkout.root)
            env = os.environ | place.checkout.env | {"COLUMNS": "200", "TERM": "xterm"}
            command = [sys.executable, "-m", "gpufleet.cli.entry", *arguments]
            os.execve(command[0], command, env)

    @property
    def text(self) -> str:
        """What it has printed so far, without what only moves the cursor."""
        while select.select([self._terminal], [], [], 0.05)[0]:
            try:
                part = os.read(self._terminal, 65536)
            except OSError:
                break
            if not part:
                break
            self._text += part
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._text.decode(errors="replace")).replace("\r", "\n")

    def wait(self, until: Callable[[], bool]) -> None:
        """Read on until something holds."""
        end = time.monotonic() + _PATIENCE_S
        while not until():
            assert time.monotonic() < end, self.text[-2000:]
            _ = self.text

    def ctrl_c(self) -> None:
        """What the key does: the signal goes to everything that runs at the terminal."""
        os.write(self._terminal, b"\x03")

    def ended(self) -> int:
        """Its exit code, once it has ended."""
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
        """Whether it has a handler of its own for a signal."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (sign - 1) & 1)
        return False


def left_of(place: Place) -> list[str]:
    """The command lines of what works in this checkout, but for its emulated AWS."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "cwd").readlink().is_relative_to(place.checkout.root):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return [line for line in found if "gpufleet.sandbox.server" not in line]


def slowed(place: Place, action: str) -> Callable[[], bool]:
    """Whether a request of a slow action is being answered."""
    root = place.checkout.root / ".gpufleet" / "sandbox"
    return lambda: f"slow {action}" in ((daemon.faults(root) or {}).get("injected") or {})


def test_ctrl_c_while_modules_load_is_one_line_and_130(place: Place) -> None:
    terminal = Terminal(place, *UP)
    terminal.wait(lambda: terminal.catches(signal.SIGTERM))
    terminal.ctrl_c()
    assert terminal.ended() == 130
    lines = [line for line in terminal.text.replace("^C", "").splitlines() if line.strip()]
    assert len(lines) == 1
    assert lines[0].startswith("interrupted; ")
    assert lines[0].endswith("`gpufleet up test --engine embedded --yes`")


def test_ctrl_c_during_a_preview_ends_it_at_once(place: Place) -> None:
    terminal = Terminal(place, *UP)
    terminal.wait(lambda: "preview: " in terminal.text)
    terminal.ctrl_c()
    assert terminal.ended() == 130
    assert "interrupted; the state is kept; " + LINE.format("to go on") in terminal.text
    assert "Traceback" not in terminal.text
    assert "failed" not in terminal.text
    terminal.wait(lambda: left_of(place) == [])


def test_ctrl_c_finishes_what_is_under_way_and_the_next_up_goes_on(place: Place) -> None:
    place.faults("--slow", "ec2:CreateVpc=4")
    terminal = Terminal(place, *UP)
    terminal.wait(slowed(place, "ec2:CreateVpc"))
    terminal.ctrl_c()
    # At once: the answer to the request is still to come.
    terminal.wait(
        lambda: bool(re.search(r"interrupted: waiting for \d+ operations?; the state is kept", terminal.text))
    )
    assert terminal.ended() == 130
    assert re.search(r"interrupted, waiting for \d+ operations?, \d+ s", terminal.text)
    assert terminal.text.rstrip().splitlines()[-1].strip().endswith(LINE.format("to go on"))
    assert "Traceback" not in terminal.text
    terminal.wait(lambda: left_of(place) == [])
    state = place.state()
    assert "pending_operations" not in state
    assert "aws:ec2/vpc:Vpc" in state
    assert "aws:ec2/subnet:Subnet" not in state
    place.faults("--clear")
    # With policies, and without any option that was not given before.
    done = place.checkout.json(*UP)
    assert done["ok"]
    assert place.checkout.json(*UP)["changes"]["same"] == done["changes"]["same"] + done["changes"]["create"]


def test_a_second_ctrl_c_does_not_wait_and_the_next_up_looks_what_became_of_it(place: Place) -> None:
    place.faults("--slow", "ec2:CreateVpc=60")
    terminal = Terminal(place, *UP, "--skip-policies")
    terminal.wait(slowed(place, "ec2:CreateVpc"))
    terminal.ctrl_c()
    terminal.wait(lambda: "interrupted: waiting for" in terminal.text)
    terminal.ctrl_c()
    assert terminal.ended() == 130
    assert "interrupted again" in terminal.text
    terminal.wait(lambda: left_of(place) == [])
    assert "pending_operations" in place.state()
    place.faults("--clear")
    done = place.checkout.json(*UP)
    assert done["ok"]
    again = place.checkout.json(*UP)["changes"]
    assert sum(again[key] for key in ("create", "update", "replace", "delete")) == 0
