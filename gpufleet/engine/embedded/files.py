"""The files of a state: what the operating system says of them, with what to do about it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from gpufleet.engine.errors import StateError

BACKUPS = 5
"""How many former checkpoints are kept."""

_REMEDIES = {
    errno.ENOSPC: "make room on that disk and run again: every step recorded so far is kept",
    errno.EDQUOT: "make room in your quota and run again: every step recorded so far is kept",
    errno.EFBIG: "raise the limit of file sizes (`ulimit -f`) and run again: every step so far is kept",
    errno.EROFS: "that file system is read-only: work in a checkout that can be written",
    errno.EACCES: "give yourself permission to it (`ls -ld` says who owns it) and run again",
    errno.EPERM: "give yourself permission to it (`ls -ld` says who owns it) and run again",
    errno.ENOTDIR: "a file is where a folder belongs: move it away and run again",
    errno.EEXIST: "something else is at that place: move it away and run again",
    errno.EISDIR: "a folder is where the file belongs: move it away and run again",
    errno.EIO: "the disk or the network drive fails: see the system's log, and copy the folder elsewhere",
}


def state_error(path: Path, what: str, error: OSError) -> StateError:
    """The operating system's refusal as one of ours: `<path>: <what>: <its words>`, with a remedy."""
    reason = error.strerror or str(error)
    default = f"see what `ls -ld {path}` says, then run again: the files are left as they are"
    return StateError(f"{path}: {what}: {reason}", remedy=_REMEDIES.get(error.errno or 0, default))


def backup_of(path: Path, number: int = 1) -> Path:
    """Where a former checkpoint is kept; 1 is the last one before the present."""
    return path.with_name(path.name + (".bak" if number == 1 else f".bak.{number}"))


def backups_of(path: Path) -> list[Path]:
    """The former checkpoints that are there, the last one first."""
    return [file for number in range(1, BACKUPS + 1) if (file := backup_of(path, number)).is_file()]


def replace_durably(temporary: Path, path: Path) -> None:
    """Put a written file in the place of `path`, whose content becomes its first backup."""
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
    """Make a folder and those above it, each durably."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make what happened to the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
