"""A pytest plugin: temporary files of a run are in memory if it has room for them.

On a disk, a test that writes a file again waits until the disk has its former content, and daemons wait for
their databases.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
NEEDED_GIB = 6
"""Twice of what a whole run had in it at once."""
AVAILABLE_GIB = 12
"""With what the programs of a run take, racks above all."""
# Hosts of racks have devices, programs and sudo in their files.
REFUSED = os.ST_NOEXEC | os.ST_NOSUID | os.ST_NODEV
FOLDER = pytest.StashKey[Path]()
LOCK = pytest.StashKey[int]()


def has_room(folder: Path, needed_gib: float = NEEDED_GIB, available_gib: float = AVAILABLE_GIB) -> bool:
    """Whether a folder in memory can take the temporary files of a run."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    free = found.f_bavail * found.f_frsize
    memory = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(memory["MemAvailable"].split()[0]) * 2**10
    enough = free >= needed_gib * 2**30 and available >= available_gib * 2**30
    return os.access(folder, os.W_OK) and not found.f_flag & REFUSED and enough


@pytest.hookimpl(tryfirst=True)  # before pytest reads its options for temporary files
def pytest_configure(config: pytest.Config) -> None:
    """Let this run and all its processes use a new folder. Runs that failed have left theirs."""
    if hasattr(config, "workerinput") or config.option.basetemp or not has_room(MEMORY):
        return
    with _locked(MEMORY):
        for left in MEMORY.glob("gpufleet-*"):
            if left.name.removeprefix("gpufleet-").isdecimal():
                _remove(left)
        # A short name: paths of sockets have at most 107 characters.
        folder = next(each for n in itertools.count() if not (each := MEMORY / f"gpufleet-{n}").exists())
        folder.mkdir(mode=0o700)
        # A lock shows other runs that this one goes on. Numbers of processes do not: a container has its own.
        config.stash[LOCK] = os.open(folder, os.O_RDONLY)
        fcntl.flock(config.stash[LOCK], fcntl.LOCK_EX)
    config.stash[FOLDER] = folder
    config.option.basetemp = str(folder / "t")
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Delete the folder after a run without failures."""
    folder = session.config.stash.get(FOLDER, None)
    if folder and exitstatus == pytest.ExitCode.OK:
        with _locked(MEMORY):
            fcntl.flock(session.config.stash[LOCK], fcntl.LOCK_UN)
            _remove(folder)


def _remove(folder: Path) -> None:
    """Delete the folder, unless a run has it locked or a file system is still mounted in it."""
    with suppress(OSError), _locked(folder, fcntl.LOCK_NB):
        if str(folder) not in Path("/proc/self/mounts").read_text():
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path, how: int = 0) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | how)
        yield
    finally:
        os.close(descriptor)
