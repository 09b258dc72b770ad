"""The log of a run, with a line per step, and the durations of runs."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

from gpufleet.cli.counting import Expectation
from gpufleet.errors import InputError
from gpufleet.files import write_atomically


class RunLog:
    """A private log file with a line per step. Write errors (disk full, permissions) are ignored."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._started = time.monotonic()
        self.is_written = False
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.unlink(missing_ok=True)
            path.touch(mode=0o600)
            self.is_written = True

    def write(self, line: str) -> None:
        """Add a line with the seconds since the start."""
        if not self.is_written:
            return
        try:
            with self.path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(f"{time.monotonic() - self._started:8.1f} s  {line}\n")
        except OSError:
            self.is_written = False


class Durations:
    """Steps and seconds of the last run of each verb, in a file of the checkout."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def of(cls, local: Path) -> Durations:
        """Return the durations of a checkout, by its .gpufleet folder."""
        return cls(local / "durations.json")

    def expected(self, key: str, steps: int = 0) -> Expectation:
        """Return the expectation for `key`. `steps` overrides the stored number."""
        last = self._read().get(key) or {}
        known = int(last.get("steps") or 0)
        seconds = float(last.get("seconds") or 0.0)
        # The duration of a run with other steps does not apply.
        alike = not steps or abs(known - steps) * 5 <= steps
        return Expectation(steps or known, seconds if alike else 0.0)

    def keep(self, key: str, steps: int, seconds: float) -> None:
        """Store a finished run. If it cannot be written, the next run has no estimate."""
        if not steps:
            return
        kept = {**self._read(), key: {"steps": steps, "seconds": round(seconds, 1)}}
        with contextlib.suppress(OSError, InputError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(self._path, json.dumps(kept, indent=1) + "\n")

    def _read(self) -> dict[str, dict[str, float]]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        known = found.items() if isinstance(found, dict) else ()
        return {key: value for key, value in known if isinstance(value, dict)}
