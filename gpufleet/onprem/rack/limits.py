"""The one setting of the machine that a large rack needs changed, and how it comes back.

Every systemd and its services watch files with inotify, some ten instances a host. The kernel counts
them by user, and all hosts run as root: from about ten hosts on, Linux' default of 128 is too low
and hosts fail in odd places. The setting as it was is kept in a file until the last rack is down.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
PER_HOST = 24
# What the machine itself may use of them.
_MACHINE = 64
# Its first line is the setting as it was; after it, the id of each rack that needs another.
_KEPT = Path("/var/tmp/gpufleet-racks.limits")  # noqa: S108 - root's, opened without following links


def raise_for(rack: str, hosts: int) -> None:
    """Makes room for a rack of so many hosts, when there is not enough."""
    with _kept() as (before, racks):
        now = int(INSTANCES.read_text(encoding="utf-8"))
        needed = PER_HOST * hosts + _MACHINE
        if needed <= now and not racks:
            return
        before.append(now)
        racks.append(rack)
        if needed > now:
            INSTANCES.write_text(f"{needed}\n", encoding="utf-8")


def give_back(rack: str) -> None:
    """Forgets the rack's need; the last one that had any puts the setting back."""
    with _kept() as (before, racks):
        if rack in racks:
            racks.remove(rack)
            if not racks:
                INSTANCES.write_text(f"{before[0]}\n", encoding="utf-8")


@contextmanager
def _kept() -> Iterator[tuple[list[int], list[str]]]:
    """The setting as it was before any rack, and the racks that needed another; written back."""
    with _locked_file() as handle:
        handle.seek(0)
        lines = handle.read().split()
        before, racks = [int(line) for line in lines[:1]], lines[1:]
        yield before, racks
        handle.seek(0)
        handle.truncate()
        if racks:
            handle.write("\n".join([str(before[0]), *racks]) + "\n")
            handle.flush()
        else:
            _KEPT.unlink()


@contextmanager
def _locked_file() -> Iterator[IO[str]]:
    while True:
        with open(_KEPT, "a+", encoding="utf-8", opener=_private) as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            # Whoever held it before may have removed it: then this is a file that nobody else sees.
            if _KEPT.exists() and os.fstat(handle.fileno()).st_ino == _KEPT.stat().st_ino:
                yield handle
                return


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
