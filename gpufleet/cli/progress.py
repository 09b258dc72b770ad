"""Progress of a run: a live screen on a terminal, one plain line for each event elsewhere."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from gpufleet.cli.console import is_terminal
from gpufleet.engine.api import DiagnosticEvent, Event, Op, PolicyEvent, RemediationEvent, ResourceEvent
from gpufleet.report.changes_text import describe, names_for_urns

_RUNNING_ROWS = 12
_SIGN_OF_LIFE_S = 10.0


class Progress:
    """Shows the events of one run; use it as a context manager and pass `on_event` to the engine.

    Unchanged resources are counted, not listed. With `listed=False` (a preview, whose changes are
    shown by site afterwards) changes are counted only, and a place without a terminal gets a line
    now and then. `quiet` shows nothing (for --json). `live` is for tests.
    """

    def __init__(
        self,
        console: Console,
        verb: str,
        *,
        quiet: bool = False,
        listed: bool = True,
        live: bool | None = None,
    ) -> None:
        self._console = console
        self._verb = verb
        self._quiet = quiet
        self._listed = listed
        self._running: dict[str, ResourceEvent] = {}
        self._done = 0
        self._same = 0
        self._skipped = 0
        self._started = self._last_line = time.monotonic()
        # Held for the counts only and never while printing: the live screen renders from a thread of
        # its own and holds the screen's lock then, so that two threads would wait for each other.
        self._lock = threading.Lock()
        self._interactive = not quiet and (is_terminal(console.file) if live is None else live)
        self._live = Live(console=console, get_renderable=self.render, refresh_per_second=8, transient=True)

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
        if isinstance(event, ResourceEvent):
            line = self._resource(event)
        elif isinstance(event, DiagnosticEvent):
            line = _diagnostic(event)
        elif isinstance(event, RemediationEvent):
            line = _remediation(event)
        else:
            line = policy_line(event)
        if line is not None:
            self._console.print(line, soft_wrap=True)

    def _resource(self, event: ResourceEvent) -> Text | None:
        """Count the event; the line to print for it, if any."""
        with self._lock:
            if event.status == "started":
                if event.op is not Op.SAME:
                    self._running[event.urn] = event
                return None
            self._running.pop(event.urn, None)
            self._done += event.status != "skipped"
            if event.op is Op.SAME and event.status == "done":
                self._same += 1
                return self._sign_of_life()
            if event.status == "skipped":
                # One failure can leave out hundreds: they are summed up at the end.
                self._skipped += 1
                return self._sign_of_life()
            if self._listed or event.status == "failed":
                return describe(event)
            return self._sign_of_life()

    def _sign_of_life(self) -> Text | None:
        now = time.monotonic()
        if self._interactive or now - self._last_line < _SIGN_OF_LIFE_S:
            return None
        self._last_line = now
        return Text(f"   {self._counts()}")

    def _counts(self) -> str:
        elapsed = time.monotonic() - self._started
        skipped = f", {self._skipped} skipped" if self._skipped else ""
        return f"{self._verb}: {self._done} done, {self._same} of them unchanged{skipped}, {elapsed:.0f}s"

    def render(self) -> RenderableType:
        """What the live screen shows now; called from the screen's own thread."""
        with self._lock:
            running = list(self._running.values())
            counts = self._counts()
        room = max(1, min(_RUNNING_ROWS, self._console.height - 5))
        rows: list[RenderableType] = [Text("under way:", style="dim")] if running else []
        rows += [_one_row(describe(event)) for event in running[:room]]
        if len(running) > room:
            rows.append(Text(f"   and {len(running) - room} more under way", style="dim"))
        rows.append(Spinner("dots", text=f" {counts}"))
        return Group(*rows)


def _one_row(line: Text) -> Text:
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _diagnostic(event: DiagnosticEvent) -> Text | None:
    message = event.message.rstrip()
    if event.severity == "debug" or not message.strip():
        return None
    where = f"{event.urn.rsplit('::', 1)[-1]}: " if event.urn else ""
    style = {"warning": "yellow", "error": "bold red"}.get(event.severity, "")
    return Text(f"   {where}{names_for_urns(message)}", style=style)


def policy_line(event: PolicyEvent) -> Text:
    """A violation on one line."""
    style = "bold red" if event.enforcement == "mandatory" else "yellow"
    return Text(f"   policy {event.policy} ({event.enforcement}): {event.message}", style=style)


def _remediation(event: RemediationEvent) -> Text:
    name = event.urn.rsplit("::", 1)[-1]
    return Text(f"   {name}: policy {event.policy} set {', '.join(event.changed) or 'nothing'}")
