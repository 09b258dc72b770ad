"""Writes the snapshot soon after a change, without delaying requests.

A change is saved once nothing has changed for `QUIET` seconds, and at the latest after `LATEST` seconds: a
killed server can lose that much. Only the pickling (tens of milliseconds) blocks requests; the writing does
not.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from gpufleet.files import put
from gpufleet.lab.aws.server import snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

QUIET = 0.2
LATEST = 1.0


class Saver:
    """Saves `dump()` of the backends to `path` while `lock` blocks requests.

    `owner` returns whether the folder is still this server's: a deleted and recreated folder has another
    server, whose state must not be overwritten.
    """

    def __init__(self, path: Path, owner: Callable[[], bool]) -> None:
        self._path = path
        self._owner = owner
        self._changed = threading.Event()
        self._stop = threading.Event()
        self._last_change = time.monotonic()
        self._lock: AbstractContextManager[object] = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="sandbox-saver", daemon=True)

    def start(self, lock: AbstractContextManager[object]) -> None:
        """Start to watch for changes."""
        self._lock = lock
        self._thread.start()

    def changed(self) -> None:
        """Record that the state is newer than the file."""
        self._last_change = time.monotonic()
        self._changed.set()

    def close(self) -> None:
        """Stop watching, and save what is not saved yet."""
        self._stop.set()
        self._changed.set()
        self._thread.join()
        self.save()

    def save(self) -> None:
        """Write the snapshot now, atomically, readable only by this user."""
        with self._lock:
            data = snapshot.dump()
        if not self._owner():
            return
        put(self._path, data)

    def _run(self) -> None:
        while True:
            self._changed.wait()
            first = time.monotonic()
            while time.monotonic() - self._last_change < QUIET and time.monotonic() - first < LATEST:
                if self._stop.wait(QUIET / 4):
                    break
            if self._stop.is_set():
                return
            self._changed.clear()
            try:
                self.save()
            except Exception:  # the next change retries; the log has the reason
                traceback.print_exc(file=sys.stderr)
