"""What racks share and what takes long to make: kept by the hash of its recipe, made once at a time."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Say = Callable[[str], None]


def cached(folder: Path, kind: str, recipe: str, make: Callable[[Path], None]) -> Path:
    """The folder `<kind>-<hash of recipe>`; `make` fills it when it is not there yet.

    Whoever comes second waits, and a `make` that is killed leaves nothing that is taken for whole.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    ready = folder / f"{kind}-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    with locked(folder / f"{kind}.lock"):
        if ready.is_dir():
            return ready
        making = folder / f"{kind}.new"
        remove_tree(making)
        making.mkdir(mode=0o755)
        make(making)
        making.rename(ready)
    return ready


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds an flock, which ends with its holder however that ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def remove_tree(path: Path) -> None:
    """Removes a folder if it is there. Raises OSError when something in it stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
