"""One run at a time on a stack: an advisory lock beside the state, with its holder.

The lock is `flock`, so the kernel releases it when its holder ends, however it ends; the file's content only
informs users about the holder. The warden of a run's processes holds it too: after a crash the lock is
released when the last provider has ended, and the next run waits until then.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from gpufleet.engine.embedded.files import make_folder, state_error
from gpufleet.engine.errors import StateLockedError

# How long the warden of a crashed run may take to end its providers (it kills them after one second).
_DYING_S = 10.0


class StateLock:
    """Context manager that holds `<state>.lock`, or raises `StateLockedError` with the holder.

    `descriptor` is the open lock file (-1 outside the context).
    """

    def __init__(self, state_file: Path, verb: str) -> None:
        self.path = state_file.with_name(state_file.name + ".lock")
        self._verb = verb
        self.descriptor = -1

    def __enter__(self) -> StateLock:
        try:
            make_folder(self.path.parent)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise state_error(self.path, "the state cannot be locked", error) from error
        deadline = time.monotonic() + _DYING_S
        while not _taken(descriptor):
            content = os.pread(descriptor, 4096, 0)
            if _is_dead(content) and time.monotonic() < deadline:
                # Its providers are still ending: recovery must look for what they do until then.
                time.sleep(0.05)
                continue
            os.close(descriptor)
            raise StateLockedError(
                f"the state is locked by {_describe(content)}",
                remedy="wait until that run ends, or end it; a crashed run holds no lock",
            )
        self.descriptor = descriptor
        with contextlib.suppress(OSError):
            # A full disk must not prevent the lock: only its holder cannot be recorded.
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(self._identity()).encode(), 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The file stays: without it a third run would lock a new file of the same name.
        os.ftruncate(self.descriptor, 0)
        os.close(self.descriptor)
        self.descriptor = -1

    def _identity(self) -> dict[str, object]:
        return {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "verb": self._verb,
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }


def holder_of(state_file: Path) -> str:
    """Return the holder of a state's lock as text; empty if it is not locked."""
    path = state_file.with_name(state_file.name + ".lock")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise state_error(path, "the lock cannot be read", error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _describe(os.read(descriptor, 4096))
    finally:
        os.close(descriptor)
    return ""


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_dead(content: bytes) -> bool:
    """Return whether the holder in a lock file was a process of this host that has ended."""
    try:
        data = json.loads(content)
        if data["host"] != socket.gethostname():
            return False
        state = Path(f"/proc/{int(data['pid'])}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return Path("/proc/self").exists()
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return False
    return state in ("Z", "X")


def _describe(content: bytes) -> str:
    try:
        data = json.loads(content)
        return f"process {data['pid']} on {data['host']} ({data['verb']}, since {data['since']})"
    except (ValueError, KeyError, TypeError):
        return "another process"
