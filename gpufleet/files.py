"""Files that are there whole or not at all, for whoever reads while we write; folders and their copies."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from gpufleet.errors import InputError


def folder_identity(path: Path) -> str:
    """What tells a folder from its copies: device and inode, which it keeps when it is moved.

    Returns an empty string where there is no such folder.
    """
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"


def write_atomically(path: Path, text: str, *, mode: int = 0o644) -> bool:
    """Write `text` to `path` through a temporary file beside it; whether anything changed.

    Folders are made as needed; the file never has more than the permissions of `mode`. Raises
    InputError when the place cannot be written.
    """
    try:
        if path.is_file() and path.read_bytes() == text.encode():
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(mode)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}", remedy="name a file in a folder of yours"
        ) from None
    return True
