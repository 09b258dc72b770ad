"""Progress of long operations as text: done of total, elapsed and remaining time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

LINE_EVERY_S = 10.0
"""The maximum interval between lines without a terminal, in seconds."""
_LINE_AT_LEAST_S = 2.0
_LINE_EVERY_SHARE = 0.1
_ESTIMATE_FROM_SHARE = 0.05


@dataclass(slots=True)
class Expectation:
    """The expected number of `steps` (0: unknown), and the `seconds` of the last run."""

    steps: int = 0
    seconds: float = 0.0


class Pace:
    """Counts steps of `verb` and decides when a line is due without a terminal."""

    def __init__(self, verb: str, expected: Expectation | None = None) -> None:
        self._verb = verb
        self._expected = expected or Expectation()
        self._started = self._last_line = time.monotonic()
        self._last_done = 0
        self.done = 0

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def words(self, *more: str) -> str:
        """`up: 120 of 235 done, 12 s, about 11 s left`; `more` comes after the count."""
        return f"{self._verb}: {', '.join([self.count('done'), *filter(None, more), *self.times()])}"

    def count(self, unit: str) -> str:
        """Return `120 of 235 done`, or `120 done` if the total is unknown."""
        total = self._expected.steps
        return f"{self.done} of {max(total, self.done)} {unit}" if total else f"{self.done} {unit}"

    def times(self) -> list[str]:
        """Return `12 s` and, if it can be estimated, `about 11 s left`."""
        left = self.left_s()
        return [
            duration(self.elapsed_s),
            *([f"about {duration(left)} left"] if left is not None and left >= 1 else []),
        ]

    def left_s(self) -> float | None:
        """Return the remaining seconds, estimated from this run and the last one, None if unknown."""
        total, last, elapsed = self._expected.steps, self._expected.seconds, self.elapsed_s
        if not total or self.done >= total:
            return None
        share = self.done / total
        by_last = last - elapsed if last > elapsed else None
        if share < _ESTIMATE_FROM_SHARE:
            return by_last
        by_pace = elapsed / share - elapsed
        return by_pace if by_last is None else share * by_pace + (1 - share) * by_last

    def is_due(self) -> bool:
        """Return whether a line is due: after a tenth of the work or ten seconds since the last line."""
        now = time.monotonic()
        since = now - self._last_line
        share = (self.done - self._last_done) / self._expected.steps if self._expected.steps else 0.0
        if since < LINE_EVERY_S and not (since >= _LINE_AT_LEAST_S and share >= _LINE_EVERY_SHARE):
            return False
        self._last_line, self._last_done = now, self.done
        return True


class Ticker:
    """Calls `tick` every second in a thread, between `start` and `stop`."""

    def __init__(self, tick: Callable[[], None], every_s: float = 1.0) -> None:
        self._tick = tick
        self._every_s = every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread. `tick` is not called afterwards."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            self._tick()


def duration(seconds: float) -> str:
    """`12 s`, `3 min 5 s`, `1 h 2 min`."""
    whole = round(max(0.0, seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
