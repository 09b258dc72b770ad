"""Progress of a run: a live screen on a terminal, one plain line for each event elsewhere."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.text import Text

from gpufleet.engine.api import DiagnosticEvent, Event, Op, PolicyEvent, ResourceEvent

GLYPHS = {
    Op.CREATE: ("+", "green"),
    Op.UPDATE: ("~", "yellow"),
    Op.REPLACE: ("+-", "magenta"),
    Op.CREATE_REPLACEMENT: ("++", "magenta"),
    Op.DELETE_REPLACED: ("--", "magenta"),
    Op.DELETE: ("-", "red"),
    Op.READ: (">", "cyan"),
    Op.REFRESH: ("^", "cyan"),
    Op.SAME: (" ", "dim"),
}
_RUNNING_ROWS = 12


def describe(event: ResourceEvent) -> Text:
    """One resource event as a line: what happens, to which type and name, and what differs."""
    glyph, color = GLYPHS[event.op]
    line = Text()
    line.append(f"{glyph:>2} ", style=color)
    line.append(short_type(event.type), style="dim")
    line.append(f"  {event.name}")
    keys = event.replace_keys or event.diff
    if keys and event.op is not Op.CREATE:
        line.append(f"  [{', '.join(keys[:6])}{', ...' if len(keys) > 6 else ''}]", style=color)
    if event.status == "failed":
        line.append(f"  failed: {event.error}", style="bold red")
    elif event.status == "skipped":
        line.append(f"  skipped: {event.error}", style="yellow")
    elif event.status == "done" and event.elapsed_s >= 1:
        line.append(f"  {event.elapsed_s:.0f}s", style="dim")
    return line


def short_type(token: str) -> str:
    """`aws:ec2/vpc:Vpc` as `aws:ec2:Vpc`, the way Pulumi's own display shortens it."""
    parts = token.split(":")
    if len(parts) == 3 and "/" in parts[1]:
        return f"{parts[0]}:{parts[1].split('/')[0]}:{parts[2]}"
    return token


class Progress:
    """Shows the events of one run; use it as a context manager and pass `on_event` to the engine.

    Unchanged resources are counted, not listed. `quiet` shows nothing (for --json).
    """

    def __init__(self, console: Console, verb: str, *, quiet: bool = False) -> None:
        self._console = console
        self._verb = verb
        self._quiet = quiet
        self._interactive = console.is_terminal and not quiet
        self._running: dict[str, ResourceEvent] = {}
        self._done = 0
        self._same = 0
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        if self._interactive:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._interactive:
            self._live.stop()

    def on_event(self, event: Event) -> None:
        """Take one event of the engine; may be called from any of its threads."""
        if self._quiet:
            return
        with self._lock:
            if isinstance(event, ResourceEvent):
                self._resource(event)
            elif isinstance(event, DiagnosticEvent):
                self._diagnostic(event)
            else:
                self._policy(event)

    def _resource(self, event: ResourceEvent) -> None:
        if event.status == "started":
            if event.op is not Op.SAME:
                self._running[event.urn] = event
            return
        self._running.pop(event.urn, None)
        self._done += 1
        if event.op is Op.SAME and event.status == "done":
            self._same += 1
            return
        self._console.print(describe(event), soft_wrap=True)

    def _diagnostic(self, event: DiagnosticEvent) -> None:
        if event.severity == "debug" or not event.message.strip():
            return
        style = {"warning": "yellow", "error": "bold red"}.get(event.severity, "")
        where = f"{event.urn.rsplit('::', 1)[-1]}: " if event.urn else ""
        self._console.print(f"   {escape(where + event.message.rstrip())}", style=style, soft_wrap=True)

    def _policy(self, event: PolicyEvent) -> None:
        style = "bold red" if event.enforcement == "mandatory" else "yellow"
        self._console.print(
            f"   policy {escape(event.policy)} ({event.enforcement}): {escape(event.message)}", style=style
        )

    def _render(self) -> RenderableType:
        with self._lock:
            rows: list[RenderableType] = [
                describe(event) for event in list(self._running.values())[:_RUNNING_ROWS]
            ]
            more = len(self._running) - _RUNNING_ROWS
            counts = f"{self._verb}: {self._done} done, {self._same} unchanged"
            elapsed = time.monotonic() - self._started
        if more > 0:
            rows.append(Text(f"   and {more} more under way", style="dim"))
        rows.append(Spinner("dots", text=f" {counts}, {elapsed:.0f}s"))
        return Group(*rows)
