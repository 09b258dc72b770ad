"""Modules of the collection, run in this process with programs that play those of a host."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

COLLECTIONS = Path(__file__).resolve().parents[4] / "ansible" / "collections"
PLUGINS = COLLECTIONS / "ansible_collections" / "gpufleet" / "rack" / "plugins"


def load(name: str) -> ModuleType:
    """A module of the collection as Python's import would have it."""
    spec = importlib.util.spec_from_file_location(f"gpufleet_rack_{name}", PLUGINS / "modules" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Programs:
    """A folder of programs that is first on PATH, and what was called."""

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


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return Programs(folder)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Runs a module's main() with arguments; what it answers to Ansible."""

    def call(module: ModuleType, *, check: bool = False, **arguments: Any) -> dict[str, Any]:
        sent = arguments | {"_ansible_check_mode": check, "_ansible_diff": True}
        with patch_module_args(sent), pytest.raises(SystemExit) as ended:
            module.main()
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert bool(answer.get("failed")) == (ended.value.code != 0)
        return answer

    return call
