"""The files of a state, and the remedies for their operating system errors."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from gpufleet.engine.errors import StateError

BACKUPS = 5
"""The number of former checkpoints that are kept."""

_REMEDIES = {
    errno.ENOSPC: "free space on that disk and run again: every step recorded so far is kept",
    errno.EDQUOT: "free space in your quota and run again: every step recorded so far is kept",
    errno.EFBIG: "raise the limit of file sizes (`ulimit -f`) and run again: every step so far is kept",
    errno.EROFS: "that file system is read-only: use a writable checkout",
    errno.EACCES: "change its permissions (`ls -ld` shows its owner) and run again",
    errno.EPERM: "change its permissions (`ls -ld` shows its owner) and run again",
    errno.ENOTDIR: "a file blocks the path of a folder: move it away and run again",
    errno.EEXIST: "something blocks the path: move it away and run again",
    errno.EISDIR: "a folder blocks the path of the file: move it away and run again",
    errno.EIO: "check the disk or network drive and the system's log, and copy the folder elsewhere",
}


def state_error(path: Path, what: str, error: OSError) -> StateError:
    """Return an operating system error as `<path>: <what>: <its message>`, with a remedy."""
    reason = error.strerror or str(error)
    default = f"see `ls -ld {path}`, then run again: the files are unchanged"
    return StateError(f"{path}: {what}: {reason}", remedy=_REMEDIES.get(error.errno or 0, default))


def backup_of(path: Path, number: int = 1) -> Path:
    """Return the path of a former checkpoint; 1 is the latest."""
    return path.with_name(path.name + (".bak" if number == 1 else f".bak.{number}"))


def backups_of(path: Path) -> list[Path]:
    """Return the existing former checkpoints, latest first."""
    return [file for number in range(1, BACKUPS + 1) if (file := backup_of(path, number)).is_file()]


def replace_durably(temporary: Path, path: Path) -> None:
    """Replace `path` with a written file; its content becomes the first backup."""
    if path.exists():
        for number in range(BACKUPS, 1, -1):
            older = backup_of(path, number - 1)
            if older.exists():
                older.replace(backup_of(path, number))
        os.link(path, backup_of(path))
    temporary.replace(path)
    sync_folder(path.parent)


def write_durably(path: Path, content: bytes) -> None:
    """Write a private file (mode 0600) and wait until it is on the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, each durably."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make changes of the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
