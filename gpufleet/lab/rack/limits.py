"""The inotify limit of the machine, which large racks need raised, and its restoration.

Every systemd and its services watch files with inotify, some ten instances per host. The kernel counts them
per user, and all hosts run as root: from about ten hosts on, Linux' default of 128 is too low, and hosts fail
in various ways. A file keeps the original setting until the last rack is down.
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
# What the machine itself may use.
_MACHINE = 64
_BEFORE = "before"
# Its first line is the original setting; then follows `id=hosts` for each rack.
KEPT = Path("/var/tmp/gpufleet-racks.limits")  # noqa: S108 - root's, opened without following links


def raise_limit(rack: str, hosts: int) -> None:
    """Raise the limit for a rack of so many hosts in addition to the running ones."""
    with _kept() as kept:
        now = int(INSTANCES.read_text(encoding="utf-8"))
        kept.setdefault(_BEFORE, now)
        kept[rack] = hosts
        needed = PER_HOST * sum(number for name, number in kept.items() if name != _BEFORE) + _MACHINE
        if needed > now:
            INSTANCES.write_text(f"{needed}\n", encoding="utf-8")


def restore_limit(rack: str) -> None:
    """Remove the rack's share; the last one restores the setting."""
    with _kept() as kept:
        if kept.pop(rack, None) is not None and set(kept) == {_BEFORE}:
            INSTANCES.write_text(f"{kept[_BEFORE]}\n", encoding="utf-8")


@contextmanager
def _kept() -> Iterator[dict[str, int]]:
    """Yield hosts by rack, with the original setting, and write it back."""
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
            # The last holder may have removed it: then this file is not visible to others.
            if KEPT.exists() and os.fstat(handle.fileno()).st_ino == KEPT.stat().st_ino:
                yield handle
                return


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
