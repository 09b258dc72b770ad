"""What all progress displays share: a live screen on a terminal, otherwise a line at intervals."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from gpufleet.cli.console import is_terminal
from gpufleet.cli.counting import Pace, Ticker


class LiveProgress(ABC):
    """A context manager that shows the progress of a run. `quiet` shows nothing, `live` is for tests."""

    def __init__(self, console: Console, pace: Pace, *, quiet: bool, live: bool | None) -> None:
        self._console = console
        self._pace = pace
        self._quiet = quiet
        # Guards the counts. Never hold it while printing: the live screen's thread holds the screen's
        # lock while it renders, which would cause a deadlock.
        self._lock = threading.Lock()
        self._interactive = not quiet and (is_terminal(console.file) if live is None else live)
        self._live = Live(console=console, get_renderable=self.render, refresh_per_second=8, transient=True)
        self._ticker = Ticker(self._tick)

    def __enter__(self) -> Self:
        if self._interactive:
            self._live.start()
        elif not self._quiet:
            self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._interactive:
            self._live.stop()
        else:
            self._ticker.stop()

    @abstractmethod
    def render(self) -> RenderableType:
        """Return the content of the live screen. Called from the screen's thread."""

    @abstractmethod
    def _counts(self) -> str:
        """Return the counts as text. Called with the lock held."""

    def _tick(self) -> None:
        """Print a line if one is due and there is no live screen."""
        if self._quiet or self._interactive:
            return
        with self._lock:
            line = self._counts() if self._pace.is_due() else ""
        if line:
            self._console.print(Text(f"   {line}", style="dim"), soft_wrap=True)
