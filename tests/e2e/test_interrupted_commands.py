"""Ctrl-C during the other commands: one line, exit code 130, nothing left running."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.conftest import Checkout
from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.xdist_group("e2e-interruptions")


def working_on(folder: Path) -> list[str]:
    """The command lines of the processes that name a folder."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [line for line in lines if str(folder) in line]


@pytest.mark.parametrize(
    "command",
    ["configure sandbox", "verify sandbox", "catalog refresh", "sandbox start", "check sandbox"],
)
def test_ctrl_c_before_a_command_has_begun_is_one_line_and_130(
    shared_checkout: Checkout, command: str
) -> None:
    terminal = Terminal(shared_checkout, *command.split())
    terminal.wait(lambda: terminal.catches(signal.SIGTERM))
    terminal.ctrl_c()
    assert terminal.ended() == 130, terminal.text
    lines = [line for line in terminal.text.replace("^C", "").splitlines() if line.strip()]
    assert lines == [f"interrupted; run the same command again: `gpufleet {command}`"]


def test_ctrl_c_during_a_check_leaves_nothing_of_its_throwaway_account(
    shared_checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    terminal = Terminal(shared_checkout, "check", "sandbox")
    terminal.wait(lambda: "previewing sandbox" in terminal.text)
    assert list(scratch.iterdir())
    terminal.ctrl_c()
    assert terminal.ended() == 130, terminal.text
    assert "Traceback" not in terminal.text
    assert terminal.text.rstrip().endswith(
        "interrupted; run the same command again: `gpufleet check sandbox`"
    )
    terminal.wait(lambda: working_on(scratch) == [])
    assert [path for path in scratch.iterdir() if path.name.startswith("gpufleet")] == []
