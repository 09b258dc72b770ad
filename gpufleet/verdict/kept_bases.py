"""Cache of bases, so that the next verdict with the same base need not create it again.

An entry has the base's state and emulated account. Its name is a digest of all inputs of the base's run:
files of the commit, environment, gpufleet, installed packages, and environment variables. The cache is in the
user's cache folder and never in the repository, where a change could add an entry.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import stat
import sys
import time
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpufleet.files import put, user_cache

MOST = 8
"""The maximum number of entries. The least recently used one is deleted first."""

LASTS_S = 24 * 3600.0
"""The maximum age of an entry, since prices and Capacity Blocks depend on the date."""

_FORMAT = 1
_BASE = "base.json"
_LEFT_OUT = frozenset({"__pycache__", "collections"})
_SHELL = frozenset({"_", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES"})
"""Variables that change between commands of one shell and do not affect programs."""


class KeptBase(Struct, frozen=True):
    """A created base: its state (Pulumi's deployment JSON), the passphrase of its secrets, and the address of
    its account."""

    exported: Mapping[str, Any]
    passphrase: str
    address: str

    def at(self, address: str) -> dict[str, Any]:
        """Return the state with another address of the account."""
        text = json.dumps(self.exported)
        moved: dict[str, Any] = json.loads(text.replace(self.address, address))
        return moved


class KeptBases:
    """The entries of this user. Disabled if the cache folder is in `repository` or not private."""

    def __init__(self, repository: Path) -> None:
        self._folder = _folder(repository)

    def find(self, key: str, into: Path) -> KeptBase | None:
        """Return the base of a key and write the files of its account below `into`. None if there is none."""
        if self._folder is None:
            return None
        path = self._folder / key
        try:
            with zipfile.ZipFile(io.BytesIO(_read_private(path))) as archive:
                document = json.loads(archive.read(_BASE))
                if document.pop("key") != key or archive.testzip() is not None:
                    raise ValueError
                kept = KeptBase(**document)
                archive.extractall(into, [name for name in archive.namelist() if name != _BASE])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        return kept

    def keep(self, key: str, base: KeptBase, files: Iterable[Path], below: Path) -> None:
        """Store a base with the files of its account below `below`. Does nothing if the disk is full."""
        if self._folder is None:
            return
        document = {
            "key": key,
            "exported": base.exported,
            "passphrase": base.passphrase,
            "address": base.address,
        }
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr(_BASE, json.dumps(document))
            for file in files:
                archive.write(file, file.relative_to(below))
        with contextlib.suppress(OSError):
            put(self._folder / key, data.getvalue())
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        if self._folder is None:
            return
        entries = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in entries[MOST:]:
            path.unlink(missing_ok=True)


def key_of(*parts: str) -> str:
    """Return the key of `parts` with the gpufleet, packages and variables of this process."""
    variables = sorted(each for each in os.environ.items() if each[0] not in _SHELL)
    facts = [_FORMAT, parts, _code(), _packages(), sys.version, variables]
    return hashlib.sha256(json.dumps(facts).encode("utf-8", "surrogateescape")).hexdigest()


def _code() -> str:
    """Return a digest of the files of gpufleet, without the roles, which no program of a stack reads."""
    top = Path(__file__).parents[1]
    found = hashlib.sha256()
    # Components and the stack program are links in a checkout.
    for folder, folders, names in os.walk(top, followlinks=True):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        for name in sorted(names):
            path = Path(folder, name)
            found.update(f"{path.relative_to(top)}\0".encode("utf-8", "surrogateescape"))
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _packages() -> list[str]:
    """The installed packages with their versions."""
    return sorted(entry.name for each in sys.path if each for entry in Path(each).glob("*.dist-info"))


def _folder(repository: Path) -> Path | None:
    try:
        folder = user_cache("bases")
        if folder.resolve().is_relative_to(repository.resolve()):
            return None
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        private = all(_is_private(each.lstat(), stat.S_IFDIR) for each in (folder.parent, folder))
    except (OSError, RuntimeError):
        return None
    return folder if private else None


def _read_private(path: Path) -> bytes:
    """Return the content of an entry. Raises OSError for a link or a file that others can write."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
        found = os.fstat(file.fileno())
        if not _is_private(found, stat.S_IFREG) or not 0 <= time.time() - found.st_mtime < LASTS_S:
            raise PermissionError
        return file.read()


def _is_private(found: os.stat_result, kind: int) -> bool:
    mine = found.st_uid == os.geteuid()
    return mine and stat.S_IFMT(found.st_mode) == kind and not found.st_mode & 0o022
