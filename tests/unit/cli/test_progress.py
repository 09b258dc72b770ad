"""The progress of a run: plain lines in a log, a live screen on a terminal, without deadlocks."""

from __future__ import annotations

import io
import re
import threading
from typing import Any

import pytest
from rich.console import Console

from gpufleet.cli import counting
from gpufleet.cli.counting import Expectation
from gpufleet.cli.progress import Progress
from gpufleet.engine.api import DiagnosticEvent, Event, InterruptEvent, Op, PolicyEvent

from .conftest import TOPIC, VPC, event


def shown(*events: Event, **options: Any) -> list[str]:
    """Plain lines for the events of a verbose `up`."""
    stream = io.StringIO()
    with Progress(Console(file=stream, width=200), "up", **{"listed": True, **options}) as progress:
        for item in events:
            progress.on_event(item)
    return stream.getvalue().splitlines()


def test_finished_change_is_one_line_with_its_duration() -> None:
    lines = shown(event(VPC, status="started"), event(VPC, elapsed_s=3.2))
    assert lines == [" + aws:ec2:Vpc  atlas-dev-use1-vpc  3s"]


def test_unchanged_resource_has_no_line() -> None:
    assert shown(event(VPC, Op.SAME)) == []


def test_update_lists_the_differences_and_a_replacement_its_reason() -> None:
    lines = shown(
        event(VPC, Op.UPDATE, diff=("tags",)),
        event(TOPIC, Op.REPLACE, diff=("tags", "name"), replace_keys=("name",)),
    )
    assert lines[0].endswith("[tags]")
    assert lines[1].endswith("[name]")


def test_failure_has_a_line_and_the_skipped_dependents_have_none() -> None:
    lines = shown(
        event(VPC, status="failed", error=f"needs {TOPIC}"),
        event(TOPIC, status="skipped", error="because"),
    )
    assert lines == [" + aws:ec2:Vpc  atlas-dev-use1-vpc  failed: needs atlas-dev-budget"]


def test_running_preview_lists_only_failures() -> None:
    lines = shown(event(VPC), event(TOPIC, status="failed", error="no"), listed=False)
    assert lines == [" + aws:sns:Topic  atlas-dev-budget  failed: no"]


def test_messages_are_shown_with_the_name_of_their_resource() -> None:
    lines = shown(
        DiagnosticEvent("warning", f"[red]{VPC} is old[/red]", TOPIC),
        DiagnosticEvent("debug", "not for people"),
        DiagnosticEvent("info", "  \n"),
        PolicyEvent("gpu", "tags", "advisory", "no owner"),
    )
    assert lines == [
        "   atlas-dev-budget: [red]atlas-dev-use1-vpc is old[/red]",
        "   policy tags (advisory): no owner",
    ]


def test_quiet_prints_nothing() -> None:
    assert shown(event(VPC), DiagnosticEvent("error", "bad"), quiet=True) == []


def clock(monkeypatch: pytest.MonkeyPatch, step: float) -> None:
    """A clock that advances at each read."""
    times = (step * number for number in range(10_000))
    monkeypatch.setattr(counting.time, "monotonic", lambda: float(next(times)))


def test_two_hundred_resources_are_a_dozen_lines_with_elapsed_and_expected_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock(monkeypatch, 0.5)
    lines = shown(
        *(event(f"{VPC}{number}") for number in range(200)), listed=False, expected=Expectation(200)
    )
    assert 8 <= len(lines) <= 12
    assert re.fullmatch(r"   up: \d+ of 200 done, \d+ s, about [\d min]+ s left", lines[4])


def test_silence_is_broken_by_a_line_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(counting.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    progress = Progress(Console(file=stream, width=200), "up", live=False)
    for second in range(25):
        now[0] = float(second)
        progress._tick()
    assert stream.getvalue().splitlines() == ["   up: 0 done, 10 s", "   up: 0 done, 20 s"]


def test_interruption_reports_the_number_of_running_operations() -> None:
    begun = [event(VPC, status="started"), event(TOPIC, status="started")]
    lines = shown(*begun, InterruptEvent(), event(VPC), InterruptEvent(forced=True), listed=False)
    assert lines == [
        "   interrupted: waiting for 2 operations; the state is kept (Ctrl-C again ends them)",
        "   interrupted again: 1 operation ended at once; the next run checks their results",
    ]


def test_interrupted_program_shows_no_traceback_but_resource_errors() -> None:
    lines = shown(
        InterruptEvent(),
        DiagnosticEvent("info", "Traceback (most recent call last):"),
        DiagnosticEvent("error", "no capacity", VPC),
    )
    assert lines == ["   interrupted: ending up", "   atlas-dev-use1-vpc: no capacity"]


def test_live_screen_shows_running_operations_within_its_size() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=40, height=10)
    progress = Progress(console, "up", live=False)
    for number in range(20):
        progress.on_event(event(f"{VPC}-{number}-{'x' * 80}", status="started"))
    progress.on_event(event(f"{VPC}-0-{'x' * 80}", Op.SAME))
    console.print(progress.render())
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1 + 5 + 2
    assert "running:" in lines[0]
    assert "and 14 more running" in lines[-2]
    assert "up: 1 done, 1 of them unchanged" in lines[-1]


def test_terminal_gets_the_lines_above_the_live_screen() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100)
    with Progress(console, "up", live=True, listed=True) as progress:
        progress.on_event(event(VPC))
    assert "atlas-dev-use1-vpc" in stream.getvalue()


def test_live_screen_and_line_output_do_not_deadlock() -> None:
    """The screen renders in its own thread under a lock that printing needs too."""
    finished: list[bool] = []

    class WatchedConsole(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            thread = threading.Thread(target=progress.render, daemon=True)
            thread.start()
            thread.join(5)
            finished.append(not thread.is_alive())

    progress = Progress(WatchedConsole(file=io.StringIO()), "up", live=False, listed=True)
    progress.on_event(event(VPC))
    progress.on_event(DiagnosticEvent("warning", "beware"))
    assert finished == [True, True]
