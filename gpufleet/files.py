"""Files that are there whole or not at all, for whoever reads while we write; folders and their copies."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from gpufleet.errors import InputError

_REMEDIES = {
    errno.ENOSPC: "make room on that disk and run again: what was there is unchanged",
    errno.EDQUOT: "make room in your quota and run again: what was there is unchanged",
    errno.EFBIG: "raise the limit of file sizes (`ulimit -f`) and run again: what was there is unchanged",
    errno.EIO: "the disk or the network drive fails: see the system's log; what was there is unchanged",
    errno.EROFS: "that file system is read-only: name a file elsewhere, or work in a copy of the checkout",
}


def folder_identity(path: Path) -> str:
    """What tells a folder from its copies: device and inode, which it keeps when it is moved.

    Returns an empty string where there is no such folder.
    """
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"


def put(path: Path, content: bytes, *, mode: int = 0o600, over: bool = True) -> None:
    """Write `content` to `path` through a temporary file beside it: a failure leaves what was there.

    The file never has more than the permissions of `mode`. Raises OSError; FileExistsError where something
    is there already and `over` is false.
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


def write_atomically(path: Path, text: str, *, mode: int = 0o644) -> bool:
    """Write `text` to `path` as `put` does; whether anything changed.

    Folders are made as needed. A path in /dev is written to and not replaced. Raises InputError when the
    place cannot be written.
    """
    content = text.encode()
    try:
        if path.absolute().is_relative_to("/dev") and path.exists():
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
    """The operating system's refusal to write `path`, with what to do about it."""
    remedy = _REMEDIES.get(error.errno or 0, "name a file in a folder of yours")
    return InputError(f"{path} cannot be written: {error.strerror or error}", remedy=remedy)
