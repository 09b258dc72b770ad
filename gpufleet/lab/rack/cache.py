"""A cache for shared data of racks that takes long to create: keyed by its recipe's hash, created once."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

OnStep = Callable[[str], None]


def cached(folder: Path, kind: str, recipe: str, make: Callable[[Path], None]) -> Path:
    """Return the folder `<kind>-<hash of recipe>`; `make` fills it if it does not exist yet.

    Concurrent callers wait, and a killed `make` leaves nothing that looks complete; programs of it that still
    run write to another folder.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    ready = folder / f"{kind}-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    with locked(folder / f"{kind}.lock"):
        if ready.is_dir():
            return ready
        # Not all can be deleted while such a program still writes there.
        for left in folder.glob(f"{kind}.new*"):
            shutil.rmtree(left, ignore_errors=True)
        making = Path(tempfile.mkdtemp(prefix=f"{kind}.new", dir=folder))
        making.chmod(0o755)
        make(making)
        making.rename(ready)
    return ready


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an flock, which ends with its holder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def remove_tree(path: Path) -> None:
    """Delete a folder if it exists. Raises OSError if something in it cannot be deleted."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
