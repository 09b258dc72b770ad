"""State of the health check between runs: one JSON file, used by one run at a time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

LOCK_S = 3.0


@dataclass
class Memory:
    """State of earlier runs. `boot_id` is that of the last one; `xids` are `health.xid.Event`s as JSON.

    `reason` is the last drain reason set by this program, or "". `seen` counts consecutive periodic
    runs with an unconfirmed finding. `good_ports` were once up at the rate of the fabric. `hung` are
    unkillable processes by program.
    """

    boot_id: str = ""
    xids: list[dict[str, Any]] = field(default_factory=list)
    xid_horizon: dict[str, float] = field(default_factory=dict)
    recovery: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    good_runs: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    ports: dict[str, dict[str, Any]] = field(default_factory=dict)
    good_ports: list[str] = field(default_factory=list)
    nvlinks: dict[str, Any] = field(default_factory=dict)
    memory_kib: int = 0
    unsupported: list[str] = field(default_factory=list)
    hung: dict[str, int] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)


def load(folder: Path) -> Memory:
    """Read the state; a missing or damaged file gives an empty one."""
    try:
        values = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        known = {item.name for item in fields(Memory)}
        return Memory(**{name: value for name, value in values.items() if name in known})
    except (OSError, ValueError, TypeError, AttributeError):
        return Memory()


def save(folder: Path, memory: Memory) -> None:
    """Write the state."""
    write(folder / "state.json", json.dumps(asdict(memory), indent=1, sort_keys=True) + "\n", 0o600)


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file atomically. A full disk keeps the old one and raises OSError."""
    new = path.with_name(f".{path.name}.new")
    try:
        new.write_text(text, encoding="utf-8")
        new.chmod(mode)
        new.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()
        raise


@contextlib.contextmanager
def locked(folder: Path, limit_s: float = LOCK_S) -> Iterator[bool]:
    """Lock the state; False if another run holds it for longer than `limit_s`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("w", encoding="utf-8")
    except OSError:
        yield False
        return
    with file:
        until = time.monotonic() + limit_s
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    yield False
                    return
                time.sleep(0.05)
                continue
            yield True
            return
