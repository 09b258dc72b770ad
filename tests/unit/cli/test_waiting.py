"""A wait shows its purpose, its duration, and an estimate from the last one."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from gpufleet.cli import counting
from gpufleet.cli.run_log import Durations
from gpufleet.cli.waiting import waiting


class Clock:
    """A clock to be set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(counting.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_terminal_shows_what_is_waited_for_and_how_long(tmp_path: Path, clock: Clock) -> None:
    durations = Durations(tmp_path / "durations.json")
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100)
    with waiting("starting it", "start", durations, console, live=True):
        clock.now += 8
    assert "starting it, 8 s" in stream.getvalue()
    assert "left" not in stream.getvalue()
    stream.truncate(0)
    with waiting("starting it", "start", durations, console, live=True):
        clock.now += 3
    assert "starting it, 3 s, about 5 s left" in stream.getvalue()
    # The line is removed.
    assert re.search(r"\x1b\[2K\s*$", stream.getvalue())


@pytest.mark.parametrize("quiet", [False, True])
def test_short_and_quiet_waits_print_nothing_without_a_terminal(tmp_path: Path, quiet: bool) -> None:
    stream = io.StringIO()
    with waiting("starting it", "start", Durations(tmp_path / "d.json"), Console(file=stream), quiet=quiet):
        pass
    assert stream.getvalue() == ""


def test_failed_wait_does_not_count_for_the_next_estimate(tmp_path: Path, clock: Clock) -> None:
    durations = Durations(tmp_path / "durations.json")
    with pytest.raises(KeyboardInterrupt), waiting("it", "start", durations, Console(file=io.StringIO())):
        clock.now += 4
        raise KeyboardInterrupt
    assert durations.expected("start").seconds == 0
