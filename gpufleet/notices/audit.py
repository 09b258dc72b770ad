"""The audit log: what was received and done, as JSON lines."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any


class Audit:
    """Appends one line for each event. Lines of several threads do not mix; the file may be rotated."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def write(self, event: str, **facts: Any) -> None:
        """Write a line: `event`, the time, and facts about it."""
        line = json.dumps({"time": round(time.time(), 3), "event": event, **facts}, default=str) + "\n"
        with self._lock:
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
            try:
                os.write(handle, line.encode())
            finally:
                os.close(handle)
