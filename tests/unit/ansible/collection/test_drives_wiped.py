"""Wiping: whose data is erased, which drives are skipped, and the erase method of a drive."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def module() -> ModuleType:
    return load("drives_wiped")


class Drives:
    """Two data drives and one with the system on it, as files; blkid finds nothing once they are zeros."""

    def __init__(self, module: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths = [str(folder / f"nvme{number}n1") for number in range(3)]
        for path in self.paths:
            Path(path).write_bytes(b"data" * 1024)
        self.steps: list[list[str]] = []
        self.identity: dict[str, int] = {}
        self.works = True
        self.scratch: set[int] = set()
        fstab = module.fstab
        monkeypatch.setattr(module, "list_drives", lambda: self.paths)
        monkeypatch.setattr(module, "numbers_in_use", lambda: {1})
        monkeypatch.setattr(module, "numbers", lambda path: {1} if path == self.paths[0] else {2})
        monkeypatch.setattr(module, "scratch_numbers", lambda owner: self.scratch)
        monkeypatch.setattr(module, "superblock", lambda path: {})
        monkeypatch.setattr(module, "CONFIG", folder / "mdadm.conf")
        monkeypatch.setattr(module, "probe", lambda path: {"TYPE": "xfs"} if self.content(path) else {})
        monkeypatch.setattr(fstab, "FSTAB", folder / "fstab")
        monkeypatch.setattr(module.shutil, "which", lambda *_, **__: "/usr/sbin/nvme")
        monkeypatch.setattr(fstab, "run", self.run)

    def content(self, path: str) -> bool:
        return any(Path(path).read_bytes())

    def run(self, command: list[str], _timeout_s: int = 0) -> Any:
        import subprocess

        self.steps.append(command)
        out = json.dumps(self.identity) if "id-ctrl" in command else ""
        if command[0] == "blkdiscard" or command[1] == "format":
            path = next(word for word in command if word in self.paths)
            if self.works:
                Path(path).write_bytes(bytes(4096))
        return subprocess.CompletedProcess(command, 0, out, "")

    @property
    def erased(self) -> list[list[str]]:
        return [step for step in self.steps if step[0] == "blkdiscard" or step[1] == "format"]


@pytest.fixture
def drives(module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: Programs) -> Drives:
    return Drives(module, tmp_path, monkeypatch)


def test_all_drives_except_system_drives_are_wiped_and_reported(
    module: ModuleType, run: Run, drives: Drives
) -> None:
    given = {"host": "dgx01", "confirm": "dgx01,dgx02"}
    foreseen = run(module, check=True, **given)
    assert drives.erased == []
    done = run(module, **given)
    assert done["changed"] is foreseen["changed"] is True
    assert done["kept"] == drives.paths[:1]
    assert [item["path"] for item in done["drives"]] == drives.paths[1:]
    assert {item["bytes"] for item in done["drives"]} == {4096}
    assert [drives.content(path) for path in drives.paths] == [True, False, False]


@pytest.mark.parametrize("confirm", ["", "dgx010", "dgx02"])
def test_host_that_is_not_named_keeps_its_data(
    module: ModuleType, run: Run, drives: Drives, confirm: str
) -> None:
    assert "its data is only wiped when it is named" in run(module, host="dgx01", confirm=confirm)["msg"]
    assert drives.steps == []


@pytest.mark.parametrize(
    ("oacs", "fna", "words"),
    [
        (2, 4, ["nvme", "format", "--ses=2"]),
        (2, 0, ["nvme", "format", "--ses=1"]),
        (0, 4, ["blkdiscard", "--zeroout"]),
    ],
)
def test_drive_is_erased_by_its_best_supported_method(
    module: ModuleType, run: Run, drives: Drives, oacs: int, fna: int, words: list[str]
) -> None:
    drives.identity = {"oacs": oacs, "fna": fna}
    run(module, host="dgx01", confirm="dgx01")
    assert len(drives.erased) == 2
    assert all(set(words) <= set(step) for step in drives.erased)


def test_unsupported_method_is_refused_before_any_drive_is_wiped(
    module: ModuleType, run: Run, drives: Drives
) -> None:
    drives.identity = {"oacs": 2, "fna": 0}
    failed = run(module, host="dgx01", confirm="dgx01", method="crypto")
    assert "does not say that it can do crypto erase" in failed["msg"]
    assert drives.erased == []


def test_drive_that_still_has_data_is_not_reported_as_wiped(
    module: ModuleType, run: Run, drives: Drives, monkeypatch: pytest.MonkeyPatch
) -> None:
    drives.works = False
    assert "still has xfs on it after overwrite" in run(module, host="dgx01", confirm="dgx01")["msg"]
    monkeypatch.setattr(module, "probe", lambda path: {})
    assert "still has data on it after overwrite" in run(module, host="dgx01", confirm="dgx01")["msg"]
