"""Files with which callers and the keeper of a port-forward find each other: one folder per endpoint."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpufleet.files import put


class Rendezvous(Struct, frozen=True):
    """The folder of one endpoint: its users, its keeper's lock, state and log. Only its owner may read it."""

    folder: Path

    @classmethod
    def of(cls, host: str) -> Rendezvous:
        """Return the rendezvous of an endpoint on this machine; create its folder."""
        runtime = os.environ.get("XDG_RUNTIME_DIR", "")
        home = Path(runtime) if runtime and Path(runtime).is_dir() else Path.home() / ".cache"
        # A home folder may be shared by several machines.
        key = hashlib.sha256(f"{socket.gethostname()} {host}".encode()).hexdigest()[:16]
        folder = home / "gpufleet" / "eks" / key
        (folder / "users").mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        return cls(folder)

    @property
    def log(self) -> Path:
        """Return the path of the keeper's log."""
        return self.folder / "log"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock: users register and the keeper ends under it."""
        with (self.folder / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def take_keeping(self) -> int | None:
        """Return a descriptor that holds the keeper's lock; None if a keeper runs. The caller closes it."""
        descriptor = os.open(self.folder / "keeper", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def is_kept(self) -> bool:
        """Return whether a keeper runs."""
        descriptor = self.take_keeping()
        if descriptor is None:
            return True
        os.close(descriptor)
        return False

    def register(self, pid: int) -> None:
        """Record a process that needs the port-forward for as long as it runs."""
        put(self.folder / "users" / str(pid), started(pid).encode())

    def users(self) -> list[int]:
        """Return the registered processes that run; forget the others."""
        running = []
        for file in (self.folder / "users").iterdir():
            if not file.name.isdigit():
                continue
            try:
                known = file.read_text(encoding="ascii")
            except OSError:
                continue
            if is_running(int(file.name)) and started(int(file.name)) == known:
                running.append(int(file.name))
            else:
                file.unlink(missing_ok=True)
        return running

    def report(self, **state: Any) -> None:
        """Write the keeper's state."""
        put(self.folder / "state", json.dumps(state).encode())

    def state(self) -> dict[str, Any]:
        """Return the state that the keeper wrote last; empty if there is none."""
        try:
            found = json.loads((self.folder / "state").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def clear(self) -> None:
        """Remove the state of an earlier keeper."""
        for name in ("state", "stale"):
            (self.folder / name).unlink(missing_ok=True)

    def mark_stale(self, session: str) -> None:
        """Ask the keeper to replace this session, which no longer answers."""
        put(self.folder / "stale", session.encode())

    def is_stale(self, session: str) -> bool:
        """Return whether a user asked to replace this session."""
        try:
            return (self.folder / "stale").read_text(encoding="utf-8") == session
        except OSError:
            return False


def is_running(pid: int) -> bool:
    """Return whether a process runs; a process of another user counts."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # A zombie has ended; only its parent has not noticed.
    return _stat(pid)[:1] != ["Z"]


def started(pid: int) -> str:
    """Return when a process started, in ticks since boot, which tells it from a later one with its number.

    Empty where there is no /proc.
    """
    fields = _stat(pid)
    return fields[19] if len(fields) > 19 else ""


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat from the third on (proc(5)); empty where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
