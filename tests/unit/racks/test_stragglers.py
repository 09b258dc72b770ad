"""Processes that a run has left running are found by their environment."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from gpufleet.racks import stragglers


def test_process_that_ends_during_the_scan_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, value in ((17, "mine"), (18, "another"), (19, "mine")):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "environ").write_bytes(f"A=1\0{stragglers.MARK}={value}\0".encode())
    (tmp_path / "20").mkdir()
    (tmp_path / "self").mkdir()
    gone = tmp_path / "17" / "environ"
    stat, read = Path.stat, Path.read_bytes

    def ends(path: Path) -> None:
        if path == gone:
            raise ProcessLookupError(errno.ESRCH, "No such process")

    def stat_of(path: Path, **options: bool) -> object:
        ends(path)
        return stat(path, **options)

    def bytes_of(path: Path) -> bytes:
        ends(path)
        return read(path)

    monkeypatch.setattr(Path, "stat", stat_of)
    monkeypatch.setattr(Path, "read_bytes", bytes_of)
    monkeypatch.setattr(stragglers, "_PROC", tmp_path)
    assert stragglers.marked_processes("mine") == [19]
