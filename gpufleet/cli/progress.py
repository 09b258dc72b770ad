"""Progress of a run: a live screen on a terminal, otherwise lines at intervals; everything in the log."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.spinner import Spinner
from rich.text import Text

from gpufleet.cli.console import from_here
from gpufleet.cli.counting import Expectation, Pace
from gpufleet.cli.live_progress import LiveProgress
from gpufleet.cli.run_log import RunLog
from gpufleet.engine.api import (
    DiagnosticEvent,
    Event,
    InterruptEvent,
    Op,
    PolicyEvent,
    RemediationEvent,
    ResourceEvent,
)
from gpufleet.report.changes_text import describe, names_for_urns

_RUNNING_ROWS = 12


class Progress(LiveProgress):
    """Shows the events of one run; use it as a context manager and pass `on_event` to the engine.

    A terminal shows a live screen with running operations. Otherwise lines are printed at intervals.
    Failures, messages and policies, and with `listed` all changes, are printed as separate lines. `log`
    receives everything. `quiet` prints nothing (for --json). `live` is for tests.
    """

    def __init__(
        self,
        console: Console,
        verb: str,
        *,
        expected: Expectation | None = None,
        log: RunLog | None = None,
        quiet: bool = False,
        listed: bool = False,
        live: bool | None = None,
    ) -> None:
        self._verb = verb
        self._listed = listed
        self._log = log
        self._running: dict[str, ResourceEvent] = {}
        self._ended: set[str] = set()
        self._same = 0
        self._skipped = 0
        self._stopping = False
        super().__init__(console, Pace(verb, expected=expected), quiet=quiet, live=live)

    @property
    def done(self) -> int:
        """The number of finished resources, failed or not."""
        return self._pace.done

    def on_event(self, event: Event) -> None:
        """Handle one event of the engine. Can be called from any thread."""
        shown: Text | None
        if isinstance(event, ResourceEvent):
            shown, logged = self._resource(event)
        else:
            shown = logged = self._message(event)
            if self._stopping and isinstance(event, DiagnosticEvent) and not event.urn:
                shown = None  # an interrupted program prints its traceback
        if self._log is not None and logged is not None:
            self._log.write(logged.plain.strip())
        if self._quiet:
            return
        if shown is not None:
            self._console.print(shown, soft_wrap=True)
        self._tick()

    def _message(
        self, event: DiagnosticEvent | PolicyEvent | RemediationEvent | InterruptEvent
    ) -> Text | None:
        if isinstance(event, DiagnosticEvent):
            return _diagnostic(event)
        if isinstance(event, RemediationEvent):
            return _remediation(event)
        if isinstance(event, PolicyEvent):
            return policy_line(event)
        with self._lock:
            self._stopping = True
            waiting = len(self._running)
        return _interruption(self._verb, waiting, forced=event.forced)

    def _resource(self, event: ResourceEvent) -> tuple[Text | None, Text | None]:
        """Count the event and return the line to print and the line for the log, if any."""
        with self._lock:
            if event.status == "started":
                if event.op is not Op.SAME:
                    self._running[event.urn] = event
                return None, None
            self._running.pop(event.urn, None)
            if event.status == "skipped":
                # One failure can skip hundreds of resources: print only their number at the end.
                self._skipped += 1
                return None, describe(event)
            self._ended.add(event.urn)
            self._pace.done = len(self._ended)
            if event.op is Op.SAME and event.status == "done":
                self._same += 1
                return None, None
            # Ignore failures of a preview that is being cancelled.
            failed = event.status == "failed" and not (self._stopping and self._verb == "preview")
        line = describe(event)
        return (line if self._listed or failed else None), line

    def _counts(self) -> str:
        waiting = len(self._running)
        return self._pace.words(
            f"{self._same} of them unchanged" if self._same else "",
            f"{self._skipped} skipped" if self._skipped else "",
            f"interrupted, waiting for {_operations(waiting)}" if self._stopping and waiting else "",
        )

    def render(self) -> RenderableType:
        """Return the content of the live screen. Called from the screen's thread."""
        with self._lock:
            running = list(self._running.values())
            counts = self._counts()
        room = max(1, min(_RUNNING_ROWS, self._console.height - 5))
        rows: list[RenderableType] = [Text("running:", style="dim")] if running else []
        rows += [_one_row(describe(event)) for event in running[:room]]
        if len(running) > room:
            rows.append(Text(f"   and {len(running) - room} more running", style="dim"))
        rows.append(Spinner("dots", text=f" {counts}"))
        return Group(*rows)


def _operations(count: int) -> str:
    return f"{count} operation{'' if count == 1 else 's'}"


def _interruption(verb: str, waiting: int, *, forced: bool) -> Text:
    if forced:
        text = f"interrupted again: {_operations(waiting)} ended at once; the next run checks their results"
    elif waiting:
        text = f"interrupted: waiting for {_operations(waiting)}; the state is kept (Ctrl-C again ends them)"
    else:
        text = f"interrupted: ending {verb}"
    return Text(f"   {text}", style="bold yellow")


def _one_row(line: Text) -> Text:
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _diagnostic(event: DiagnosticEvent) -> Text | None:
    message = event.message.rstrip()
    if event.severity == "debug" or not message.strip():
        return None
    where = f"{event.urn.rsplit('::', 1)[-1]}: " if event.urn else ""
    style = {"warning": "yellow", "error": "bold red"}.get(event.severity, "")
    return Text(f"   {where}{from_here(names_for_urns(message))}", style=style)


def policy_line(event: PolicyEvent) -> Text:
    """A violation on one line."""
    style = "bold red" if event.enforcement == "mandatory" else "yellow"
    return Text(f"   policy {event.policy} ({event.enforcement}): {event.message}", style=style)


def _remediation(event: RemediationEvent) -> Text:
    name = event.urn.rsplit("::", 1)[-1]
    return Text(f"   {name}: policy {event.policy} set {', '.join(event.changed) or 'nothing'}")
