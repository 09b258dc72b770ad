"""Progress of a playbook by host: live, and as lines without a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from gpufleet.cli.configure_progress import HostProgress
from gpufleet.cli.counting import Expectation
from gpufleet.racks.events import EventKind, TaskEvent


def event(
    kind: EventKind, host: str = "dgx001", task: str = "Install", role: str = "base", message: str = ""
) -> TaskEvent:
    return TaskEvent(kind=kind, host=host, task=task, role=role, message=message)


def console(height: int = 40) -> Console:
    return Console(file=io.StringIO(), width=100, height=height, force_terminal=False, highlight=False)


def shown(screen: Console) -> str:
    file = screen.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def rendered(progress: HostProgress, height: int = 40) -> str:
    screen = console(height)
    screen.print(progress.render())
    return shown(screen)


def test_plain_output_has_a_line_for_each_role_and_each_failure() -> None:
    screen = console()
    with HostProgress(screen, 2) as progress:
        progress.on_stage("site")
        for host in ("dgx001", "dgx002"):
            progress.on_task(event("started", host))
            progress.on_task(event("ok", host))
        progress.on_task(event("started", role="users"))
        progress.on_task(event("failed", task="Add [ada]", role="users", message="no room left"))
    lines = shown(screen).splitlines()
    assert lines[0] == "running the playbooks"
    assert lines[1].startswith("  base (")
    assert lines[2].startswith("  users (")
    assert lines[3] == "  dgx001: failed: users: Add [ada]: no room left"
    assert len(lines) == 4


def test_quiet_prints_nothing() -> None:
    screen = console()
    with HostProgress(screen, 1, quiet=True) as progress:
        progress.on_stage("site")
        progress.on_task(event("failed", message="x"))
    assert shown(screen) == ""


def test_live_screen_lists_failed_and_busy_hosts_first() -> None:
    progress = HostProgress(console(), 3, live=False)
    progress.on_task(event("ok", "idle"))
    progress.on_task(event("started", "busy", "Compile"))
    progress.on_task(event("unreachable", "lost", message="no route"))
    lines = rendered(progress).splitlines()
    assert "lost" in lines[0] and "no route" in lines[0]
    assert "busy" in lines[1] and "base: Compile" in lines[1]
    assert "idle" in lines[2]
    assert "3 of 3 hosts, 2 tasks, 0 changed, 1 hosts failed" in lines[3]


def test_hundreds_of_hosts_fit_a_small_screen() -> None:
    progress = HostProgress(console(), 500, live=False)
    for number in range(500):
        progress.on_task(event("changed", f"dgx{number:03}"))
    small = Console(file=io.StringIO(), width=80, height=20)
    small.print(progress.render())
    lines = shown(small).splitlines()
    assert len(lines) <= 40
    assert "more hosts" in lines[-2]
    assert "500 changed" in lines[-1]


def test_last_run_predicts_the_number_of_tasks_and_the_time() -> None:
    progress = HostProgress(console(), 2, expected=Expectation(100, seconds=600), live=False)
    for _ in range(2):
        progress.on_task(event("ok"))
    assert "2 of 100 tasks" in rendered(progress)
    assert "about 10 min left" in rendered(progress)
