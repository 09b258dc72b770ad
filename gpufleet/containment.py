"""Files that a pull request refers to: read only if they are in the same repository.

A fleet file, what it extends, its exemptions, its stack settings and its vault file come with a change
that is not reviewed yet. A path with `..` or a link must not reveal a file of the machine that checks the
change, neither its contents nor whether it exists.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from gpufleet.errors import InputError

MARKS = (".git", "Pulumi.yaml")
"""Files and folders that mark the top folder of a repository or checkout."""

GIVEN_FLEET_FILE = "GPUFLEET_FLEET_FILE"
"""Environment variable of a stack's program and rules: the fleet file on gpufleet's command line. Such a
file may be in another repository than the program."""

YAML_SUFFIXES = frozenset({".yaml", ".yml"})


class OutsideError(InputError):
    """A path that leads out of its repository, or to a part of it that cannot hold fleet files."""


def repository_of(path: Path, root: Path | None = None) -> Path:
    """Return the folder that `path` must not leave: the nearest one above it that is `root` or has a mark.

    The path counts as written. A folder that is a link into another repository belongs to the repository
    that holds the link. Without such a folder the result is the file's own folder.
    """
    top = None if root is None else _written(root)
    written = _written(path)
    linked: Path | None = None
    for folder in written.parents:
        if folder == top:
            return folder
        if any(os.path.lexists(folder / mark) for mark in MARKS):
            if not folder.is_symlink():
                return folder
            linked = linked or folder
    return linked or written.parent


def _written(path: Path) -> Path:
    """Return the absolute path without `..`, removed as text: `resolve` would follow links."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def shown_in(path: Path, root: Path) -> str:
    """Return a file as messages show it: relative to the checkout `root`, else as given."""
    for place in (_written, Path.resolve):
        with contextlib.suppress(ValueError, OSError, RuntimeError):
            return str(place(path).relative_to(place(root)))
    return str(path)


def contained(path: Path, shown: str, *, within: Path) -> Path:
    """Return the real path of `path`, which need not exist, below the folder `within`.

    Raises `OutsideError` if it leads out, or by a link to a hidden (`.git`) or non-YAML file, and
    `InputError` if it is not a path. Outside, only the links on the way are read.
    """
    try:
        real, top = path.resolve(), within.resolve()
        if any(each.is_symlink() for each in (real, *real.parents)):
            raise RuntimeError  # As Python does before 3.13, which leaves the links of a loop in place.
    except (OSError, RuntimeError):
        raise InputError(f"{shown}: its links form a loop", remedy="use another file") from None
    except ValueError:
        raise InputError(f"{shown}: a path has no NUL character", remedy="use another file") from None
    if not real.is_relative_to(top):
        raise OutsideError(
            f"{shown} leads out of {within}, the repository that it belongs to",
            remedy="move the file into the repository, or use the path of its real place",
        )
    inside = real.relative_to(top)
    followed = real != top / os.path.relpath(_written(path), _written(within))
    hidden = any(part.startswith(".") for part in inside.parts)
    if followed and path.suffix in YAML_SUFFIXES and (hidden or real.suffix not in YAML_SUFFIXES):
        raise OutsideError(
            f"{shown} is a link to something other than a visible YAML file of its repository",
            remedy="replace the link with the file itself",
        )
    return real


def fleet_file_of_settings(named: str, root: Path) -> str:
    """Return the fleet file or environment in the settings of a stack; a file is in the checkout `root`.

    Raises as `contained` does. A file from gpufleet's command line is checked against its own repository
    when it is read.
    """
    if os.sep in named and named != os.environ.get(GIVEN_FLEET_FILE):
        contained(Path(named).absolute(), "gpufleet:fleetFile of the stack's settings", within=root)
    return named


def open_contained(path: Path, shown: str, *, within: Path) -> int:
    """Open the file at `path` below `within` for reading, without waiting for a writer.

    The real path is opened folder by folder without following links, so a path that is exchanged after the
    check is not followed either. Raises as `contained` does, and `OSError` for what cannot be opened.
    """
    real, top = contained(path, shown, within=within), within.resolve()
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    enter = flags | os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
    folder = os.open(top, enter)
    try:
        parts = real.relative_to(top).parts or (".",)
        for part in parts[:-1]:
            below = os.open(part, enter, dir_fd=folder)
            os.close(folder)
            folder = below
        return os.open(parts[-1], flags | os.O_RDONLY | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)


def read_contained(path: Path, shown: str, *, within: Path, most: int) -> bytes:
    """Return the first `most` bytes of the regular file at `path`, below `within`.

    Raises as `contained` does, and `InputError` if it is missing, not a regular file or not readable.
    """
    try:
        descriptor = open_contained(path, shown, within=within)
        try:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
                raise InputError(f"{shown} is {kind}", remedy="use a file, such as stacks/dev/fleet.yaml")
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                return stream.read(most)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"cannot read {shown}: {reason}", remedy="check the path and its permissions"
        ) from None
