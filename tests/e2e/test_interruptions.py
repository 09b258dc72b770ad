"""Ctrl-C at a terminal: an immediate response, exit code 130, no running process; the next `up` finishes."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpufleet.lab.aws import daemon
from tests.e2e.place import Place
from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.xdist_group("e2e-interruptions")

UP = ("up", "test", "--engine", "embedded", "--yes")
LINE = "run the same command {0}: `gpufleet up test --engine embedded --yes`"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    daemon.ensure(made.checkout.root / ".gpufleet" / "sandbox")
    yield made
    made.checkout.run("sandbox", "stop")


def left_of(place: Place) -> list[str]:
    """Command lines of running processes of this checkout, except its emulated AWS."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "cwd").readlink().is_relative_to(place.checkout.root):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return [line for line in found if "gpufleet.lab.aws.server" not in line]


def slowed(place: Place, action: str) -> Callable[[], bool]:
    """Whether a request of a slow action is in progress."""
    root = place.checkout.root / ".gpufleet" / "sandbox"
    return lambda: f"slow {action}" in ((daemon.faults(root) or {}).get("injected") or {})


def test_ctrl_c_while_modules_load_prints_one_line_and_exits_130(place: Place) -> None:
    terminal = Terminal(place.checkout, *UP)
    terminal.wait(lambda: terminal.catches(signal.SIGTERM))
    terminal.ctrl_c()
    assert terminal.ended() == 130, terminal.text
    lines = [line for line in terminal.text.replace("^C", "").splitlines() if line.strip()]
    assert len(lines) == 1
    assert lines[0].startswith("interrupted; ")
    assert lines[0].endswith("`gpufleet up test --engine embedded --yes`")


def test_ctrl_c_ends_a_preview_at_once(place: Place) -> None:
    terminal = Terminal(place.checkout, *UP)
    terminal.wait(lambda: "preview: " in terminal.text)
    terminal.ctrl_c()
    assert terminal.ended() == 130, terminal.text
    assert "interrupted; the state is kept; " + LINE.format("to continue") in terminal.text
    assert "Traceback" not in terminal.text
    assert "failed" not in terminal.text
    terminal.wait(lambda: left_of(place) == [])


def test_ctrl_c_finishes_running_operations_and_the_next_up_continues(place: Place) -> None:
    place.faults("--slow", "ec2:CreateVpc=4")
    terminal = Terminal(place.checkout, *UP)
    terminal.wait(slowed(place, "ec2:CreateVpc"))
    terminal.ctrl_c()
    # Immediately: the request is still in progress.
    terminal.wait(
        lambda: bool(re.search(r"interrupted: waiting for \d+ operations?; the state is kept", terminal.text))
    )
    assert terminal.ended() == 130, terminal.text
    assert re.search(r"interrupted, waiting for \d+ operations?, \d+ s", terminal.text)
    assert terminal.text.rstrip().splitlines()[-1].strip().endswith(LINE.format("to continue"))
    assert "Traceback" not in terminal.text
    terminal.wait(lambda: left_of(place) == [])
    state = place.state()
    assert "pending_operations" not in state
    assert "aws:ec2/vpc:Vpc" in state
    assert "aws:ec2/subnet:Subnet" not in state
    place.faults("--clear")
    # With policies, and without additional options.
    done = place.checkout.json(*UP)
    assert done["ok"]
    assert place.checkout.json(*UP)["changes"]["same"] == done["changes"]["same"] + done["changes"]["create"]


def test_second_ctrl_c_ends_at_once_and_the_next_up_checks_the_pending_operation(place: Place) -> None:
    place.faults("--slow", "ec2:CreateVpc=60")
    terminal = Terminal(place.checkout, *UP, "--skip-policies")
    terminal.wait(slowed(place, "ec2:CreateVpc"))
    terminal.ctrl_c()
    terminal.wait(lambda: "interrupted: waiting for" in terminal.text)
    terminal.ctrl_c()
    assert terminal.ended() == 130, terminal.text
    assert "interrupted again" in terminal.text
    terminal.wait(lambda: left_of(place) == [])
    assert "pending_operations" in place.state()
    place.faults("--clear")
    done = place.checkout.json(*UP)
    assert done["ok"]
    again = place.checkout.json(*UP)["changes"]
    assert sum(again[key] for key in ("create", "update", "replace", "delete")) == 0
