"""Hands over what one process of a test run has set up in minutes; others copy it in seconds."""

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
    """A file with the location. A process that creates, copies or removes it holds the file's lock."""

    file: Path

    @classmethod
    def of(cls, temporary: Path) -> Handover:
        """That of a test run, whose process has `temporary` for its files."""
        several = "PYTEST_XDIST_WORKER" in os.environ
        return cls((temporary.parent if several else temporary) / "handover.json")

    @contextmanager
    def locked(self) -> Iterator[dict[str, Any] | None]:
        """The offer, or None; until the block ends no other process creates, copies or removes it."""
        with self.file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield json.loads(self.file.read_text()) if self.file.exists() else None

    def offer(self, what: dict[str, Any]) -> None:
        """Let others copy it from now on. Call within `locked`; the file has secrets of a rack in it."""
        self.file.touch(mode=0o600)
        self.file.write_text(json.dumps(what))

    def withdraw(self) -> None:
        """Withdraw the offer: wait for processes that copy it."""
        with self.locked():
            self.file.unlink(missing_ok=True)
