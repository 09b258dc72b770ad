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
_BEFORE = "before"
# Its first line is the setting as it was; after it, `id=hosts` for each rack.
KEPT = Path("/var/tmp/gpufleet-racks.limits")  # noqa: S108 - root's, opened without following links


def raise_for(rack: str, hosts: int) -> None:
    """Makes room for a rack of so many hosts beside those that are up."""
    with _kept() as kept:
        now = int(INSTANCES.read_text(encoding="utf-8"))
        kept.setdefault(_BEFORE, now)
        kept[rack] = hosts
        needed = PER_HOST * sum(number for name, number in kept.items() if name != _BEFORE) + _MACHINE
        if needed > now:
            INSTANCES.write_text(f"{needed}\n", encoding="utf-8")


def give_back(rack: str) -> None:
    """Forgets the rack's need; the last one puts the setting back."""
    with _kept() as kept:
        if kept.pop(rack, None) is not None and set(kept) == {_BEFORE}:
            INSTANCES.write_text(f"{kept[_BEFORE]}\n", encoding="utf-8")


@contextmanager
def _kept() -> Iterator[dict[str, int]]:
    """Hosts by rack, and the setting as it was before any of them; written back."""
    with _locked_file() as handle:
        handle.seek(0)
        before, *racks = handle.read().split() or [""]
        kept = {_BEFORE: int(before)} if before else {}
        for entry in racks:
            name, _, hosts = entry.partition("=")
            kept[name] = int(hosts or 0)
        yield kept
        handle.seek(0)
        handle.truncate()
        if set(kept) - {_BEFORE}:
            lines = [str(kept.pop(_BEFORE)), *(f"{name}={hosts}" for name, hosts in kept.items())]
            handle.write("\n".join(lines) + "\n")
            handle.flush()
        else:
            KEPT.unlink()


@contextmanager
def _locked_file() -> Iterator[IO[str]]:
    while True:
        with open(KEPT, "a+", encoding="utf-8", opener=_private) as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            # Whoever held it before may have removed it: then this is a file that nobody else sees.
            if KEPT.exists() and os.fstat(handle.fileno()).st_ino == KEPT.stat().st_ino:
                yield handle
                return


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
