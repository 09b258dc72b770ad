"""Modules of the collection, run in this process with stand-ins for a host's programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpufleet.rack.plugins.module_utils.slurm_node import SlurmNode

from tests.loading import load_source

if TYPE_CHECKING:
    from tests.unit.ansible.collection.controller import Controller

COLLECTIONS = Path(__file__).resolve().parents[4] / "gpufleet" / "collections"
PLUGINS = COLLECTIONS / "ansible_collections" / "gpufleet" / "rack" / "plugins"


def load(name: str) -> ModuleType:
    """A module of the collection, imported by Python."""
    return load_source(PLUGINS / "modules" / f"{name}.py", f"gpufleet_rack_{name}")


class Programs:
    """A folder of programs that is first on PATH, and their calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "called.log"

    def add(self, name: str, script: str) -> None:
        """A shell script by the name of a program; every call is logged with its words."""
        path = self.folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.log}\n{script}\n')
        path.chmod(0o755)

    def called(self, name: str = "") -> list[str]:
        """Command lines so far, of one program or of all."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if line.startswith(name)]


def programs_of_a_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """The programs of a host that runs nothing."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    # Jobs of racks that other tests run meanwhile are processes of this machine too.
    monkeypatch.setattr(SlurmNode.__init__, "__defaults__", ("", str(tmp_path)))
    return Programs(folder)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    return programs_of_a_host(tmp_path, monkeypatch)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Run a module's main() with arguments; its result for Ansible."""

    def call(module: ModuleType, *, check: bool = False, **arguments: Any) -> dict[str, Any]:
        sent = arguments | {"_ansible_check_mode": check, "_ansible_diff": True}
        with patch_module_args(sent), pytest.raises(SystemExit) as ended:
            module.main()
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert bool(answer.get("failed")) == (ended.value.code != 0)
        return answer

    return call


@pytest.fixture
def backup() -> ModuleType:
    """The module that makes backups."""
    return load("slurm_backup")


@pytest.fixture
def backups(backup: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What it and the host's own program do, with a day for each backup."""
    loaded = sys.modules["ansible_collections.gpufleet.rack.plugins.module_utils.slurm_backups"]
    stamps = iter(f"2026010{day}T000000Z" for day in range(1, 9))
    real = loaded.time.strftime
    monkeypatch.setattr(loaded, "TEXTFILES", tmp_path / "textfiles")

    def strftime(form: str, *moment: Any) -> str:
        return next(stamps) if form == "%Y%m%dT%H%M%SZ" else real(form, *moment)

    monkeypatch.setattr(loaded.time, "strftime", strftime)
    return loaded


@pytest.fixture
def restore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that restores backups."""
    loaded = load("slurm_restore")
    monkeypatch.setattr(loaded, "DATA", tmp_path / "mysql")
    return loaded


@pytest.fixture
def controller(
    tmp_path: Path,
    programs: Programs,
    monkeypatch: pytest.MonkeyPatch,
    backups: ModuleType,
    restore: ModuleType,
) -> Controller:
    """A controller with two jobs in its accounting, one in its queue, and no backup."""
    from tests.unit.ansible.collection.controller import Controller

    return Controller(tmp_path / "controller", programs, monkeypatch)
