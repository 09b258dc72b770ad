"""Files that are written whole or not at all; folders and their copies."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from gpufleet.errors import InputError

_REMEDIES = {
    errno.ENOSPC: "free space on that disk and run again: the old file is unchanged",
    errno.EDQUOT: "free space in your quota and run again: the old file is unchanged",
    errno.EFBIG: "raise the limit of file sizes (`ulimit -f`) and run again: the old file is unchanged",
    errno.EIO: "check the disk or network drive and the system's log; the old file is unchanged",
    errno.EROFS: "that file system is read-only: use another path, or work in a copy of the checkout",
}
# The only folder of /dev with files.
_MEMORY = "/dev/shm"  # noqa: S108


def folder_identity(path: Path) -> str:
    """Return device and inode of a folder, which identify it also after a move, unlike its copies.

    Returns an empty string if there is no such folder.
    """
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"


def user_cache(name: str) -> Path:
    """Return the folder `name` of gpufleet in the user's cache folder, which all checkouts share."""
    named = os.environ.get("XDG_CACHE_HOME") or ""
    cache = Path(named) if Path(named).is_absolute() else Path.home() / ".cache"
    return cache / "gpufleet" / name


def put(path: Path, content: bytes, *, mode: int = 0o600, over: bool = True) -> None:
    """Write `content` to `path` through a temporary file next to it: a failure keeps the old file.

    The file never has more than the permissions of `mode`. Raises OSError; FileExistsError if it exists and
    `over` is false.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        if over:
            temporary.replace(path)
        else:
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, text: str | bytes, *, mode: int = 0o644) -> bool:
    """Write `text` to `path` as `put` does; return whether anything changed.

    Folders are created as needed. A device in /dev is written to, not replaced. Raises InputError if it
    cannot be written.
    """
    content = text if isinstance(text, bytes) else text.encode()
    try:
        whole = path.absolute()
        if whole.is_relative_to("/dev") and not whole.is_relative_to(_MEMORY) and path.exists():
            path.write_bytes(content)
            return True
        if path.is_file() and path.read_bytes() == content:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        put(path, content, mode=mode)
    except OSError as error:
        raise cannot_be_written(path, error) from None
    return True


def cannot_be_written(path: Path, error: OSError) -> InputError:
    """Return the error for a `path` that the operating system does not let us write, with its remedy."""
    remedy = _REMEDIES.get(error.errno or 0, "use a path in your own folders")
    return InputError(f"{path} cannot be written: {error.strerror or error}", remedy=remedy)
