"""Bytes written by a piece of work, as counted by the kernel."""

from __future__ import annotations

import os
from pathlib import Path

_PROBE = 1 << 20


def file_bytes() -> int:
    """Bytes written by this process and its ended child processes.

    The kernel counts a page when it becomes dirty (`write_bytes` in /proc/<pid>/io): sockets, pipes
    and file systems in memory count nothing, and each record that is synced by itself counts a page.
    """
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return int(dict(line.split(": ") for line in lines)["write_bytes"])


def counts(folder: Path) -> bool:
    """Whether writes in `folder` are counted: not on tmpfs, nor outside Linux."""
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
