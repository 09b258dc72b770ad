"""Progress of a playbook: a live screen on a terminal, otherwise plain lines."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from gpufleet.cli.counting import Expectation, Pace, duration
from gpufleet.cli.live_progress import LiveProgress
from gpufleet.racks.events import TaskEvent

_STYLE = {"failed": "bold red", "unreachable": "bold red", "changed": "yellow", "ok": "green"}


@dataclass(slots=True)
class _Host:
    """The state of a host on the screen."""

    task: str = ""
    done: int = 0
    changed: int = 0
    bad: str = ""
    busy: bool = False


class HostProgress(LiveProgress):
    """Shows the tasks of one run by host; a context manager whose `on_task` the run calls.

    Without a terminal it prints a line when a role starts, for each failure, and at intervals. `expected`
    counts tasks. `quiet` shows nothing (for --json). `live` is for tests.
    """

    def __init__(
        self,
        console: Console,
        hosts: int,
        *,
        expected: Expectation | None = None,
        quiet: bool = False,
        live: bool | None = None,
    ) -> None:
        self._total = hosts
        self._hosts: dict[str, _Host] = {}
        self._role = ""
        super().__init__(console, Pace("tasks", expected=expected), quiet=quiet, live=live)

    @property
    def pace(self) -> Pace:
        """The number of finished tasks and the start time."""
        return self._pace

    def on_stage(self, stage: str) -> None:
        """Print the stage that starts: `preflight` or `site`."""
        if not self._quiet:
            words = {"preflight": "preflight: measuring the hosts", "site": "running the playbooks"}
            self._console.print(Text(words.get(stage, stage), style="bold"))

    def on_task(self, event: TaskEvent) -> None:
        """Handle one event of the run."""
        if self._quiet:
            return
        with self._lock:
            line = self._take(event)
        if line is not None:
            self._console.print(line, soft_wrap=True)
        self._tick()

    def _take(self, event: TaskEvent) -> Text | None:
        host = self._hosts.setdefault(event.host, _Host())
        if event.kind == "started":
            host.task, host.busy = f"{event.role}: {event.task}" if event.role else event.task, True
            if event.role and event.role != self._role:
                self._role = event.role
                if not self._interactive:
                    return Text(f"  {event.role} ({self._elapsed()})")
            return None
        host.busy = False
        host.done += 1
        self._pace.done += 1
        host.changed += event.kind == "changed"
        if event.kind in ("failed", "unreachable"):
            host.bad = event.message
            where = f"{event.role}: {event.task}" if event.role else event.task
            return Text(f"  {event.host}: {event.kind}: {where}: {event.message}", style=_STYLE[event.kind])
        return None

    def _elapsed(self) -> str:
        return duration(self._pace.elapsed_s)

    def _counts(self) -> str:
        changed = sum(host.changed for host in self._hosts.values())
        bad = sum(1 for host in self._hosts.values() if host.bad)
        parts = [
            f"{len(self._hosts)} of {self._total} hosts",
            self._pace.count("tasks"),
            f"{changed} changed",
        ]
        if bad:
            parts.append(f"{bad} hosts failed")
        return ", ".join([*parts, *self._pace.times()])

    def render(self) -> RenderableType:
        """Return the content of the live screen. Called from the screen's thread."""
        with self._lock:
            rows = [
                (name, _Host(h.task, h.done, h.changed, h.bad, h.busy)) for name, h in self._hosts.items()
            ]
            role, counts = self._role, self._counts()
        # Failed and running hosts first. With hundreds of hosts the rest is only counted.
        rows.sort(key=lambda row: (not row[1].bad, not row[1].busy))
        room = max(1, min(24, self._console.height - 5))
        table = Table(box=None, pad_edge=False, show_header=False)
        for name, host in rows[:room]:
            state = Text(f"failed: {host.bad}" if host.bad else host.task, style="red" if host.bad else "")
            state.no_wrap, state.overflow = True, "ellipsis"
            changed = Text(f"{host.changed} changed" if host.changed else "", style="yellow")
            table.add_row(Text(f"  {name}", style="bold" if host.busy else "dim"), changed, state)
        parts: list[RenderableType] = [table]
        if len(rows) > room:
            parts.append(Text(f"  and {len(rows) - room} more hosts", style="dim"))
        parts.append(Spinner("dots", text=f" {role}: {counts}" if role else f" {counts}"))
        return Group(*parts)
