"""How much a piece of work writes to files, as the kernel counts it."""

from __future__ import annotations

import os
from pathlib import Path

_PROBE = 1 << 20


def file_bytes() -> int:
    """Bytes that this process, and its children that have ended, have sent to be stored.

    The kernel counts a page when it becomes dirty (`write_bytes` in /proc/<pid>/io): sockets, pipes
    and file systems in memory count nothing, and each record that is synced by itself counts a page.
    """
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return int(dict(line.split(": ") for line in lines)["write_bytes"])


def counts(folder: Path) -> bool:
    """Whether what is written in `folder` is counted: not on a file system in memory, nor off Linux."""
    probe = folder / "probe"
    try:
        before = file_bytes()
        with probe.open("wb") as file:
            file.write(bytes(_PROBE))
            file.flush()
            os.fsync(file.fileno())
        return file_bytes() - before >= _PROBE
    except OSError:
        return False
    finally:
        probe.unlink(missing_ok=True)
