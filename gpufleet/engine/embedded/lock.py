"""One run at a time on a stack: an advisory lock beside the state that says who holds it.

The lock is `flock`, so the kernel drops it when its holder dies, however it dies; what the file
says only tells people whom they are waiting for. The warden of a run's processes holds it too: after
a death it is free once the last provider is gone, and until then the next run waits.
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

# How long the warden of a dead run may take to end its providers (it kills them after one second).
_DYING_S = 10.0


class StateLock:
    """Context manager that holds `<state>.lock`, or raises `StateLockedError` naming the holder.

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
            said = os.pread(descriptor, 4096, 0)
            if _is_dead(said) and time.monotonic() < deadline:
                # Its providers are being ended: what they do until then has to be looked for afterwards.
                time.sleep(0.05)
                continue
            os.close(descriptor)
            raise StateLockedError(
                f"the state is locked by {_describe(said)}",
                remedy="wait until that run ends, or end it there; a run that died holds no lock",
            )
        self.descriptor = descriptor
        with contextlib.suppress(OSError):
            # A full disk must not keep anybody from holding the lock: it only cannot be told who does.
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(self._identity()).encode(), 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The file stays: removing it would let a third run lock a new file of the same name.
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
    """Who holds the lock of a state, in words; empty when nobody does."""
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
    """Whether the holder that a lock file names was a process of this host and is one no more."""
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
