"""What one process of a test run has set up in minutes, told to the others, which copy it in seconds."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Handover:
    """A file that says where the thing is. Whoever makes, copies or removes it holds the file's lock."""

    file: Path

    @classmethod
    def of(cls, temporary: Path) -> Handover:
        """That of a test run, whose process has `temporary` for its files."""
        several = "PYTEST_XDIST_WORKER" in os.environ
        return cls((temporary.parent if several else temporary) / "handover.json")

    @contextmanager
    def locked(self) -> Iterator[dict[str, Any] | None]:
        """What is offered, or None; until the block ends nobody else makes, copies or removes it."""
        with self.file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield json.loads(self.file.read_text()) if self.file.exists() else None

    def offer(self, what: dict[str, Any]) -> None:
        """Others may copy it from now on. Within `alone`; the file has secrets of a rack in it."""
        self.file.touch(mode=0o600)
        self.file.write_text(json.dumps(what))

    def withdraw(self) -> None:
        """It is about to go: waits for those who copy it."""
        with self.locked():
            self.file.unlink(missing_ok=True)
