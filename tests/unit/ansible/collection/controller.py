"""A Slurm controller for tests of backups and restores: stand-ins replace its MariaDB."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs

Run = Callable[..., dict[str, Any]]
UPGRADES = {"23.02": ["22.05", "21.08"], "23.11": ["23.02", "22.05"]}
# Answers by statement, and keeps changes.
MARIADB = """\
read -r statement
case "$statement" in
  *data_length*) echo 1000;;
  *table_name*_before_*) ! grep -q RENAME {folder}/asked || echo lab_job_table;;
  *table_name*) printf 'lab_job_table\\nqos_table\\n';;
  *"COUNT(*)"*) cat {folder}/jobs;;
  *VERSION*) echo 10.11.6-MariaDB;;
  *) echo "$statement" >>{folder}/asked;;
esac
"""
PASSWORD = "planted-password-1"


class Controller:
    """A controller whose MariaDB is a program, and whose files are below a folder."""

    def __init__(self, folder: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.programs = folder, programs
        self.state, self.backups = folder / "state", folder / "backups"
        (self.state / "hash.1").mkdir(parents=True)
        (self.state / "job_state").write_text("jobs 1 2")
        (self.state / "hash.1" / "script").write_text("#!/bin/sh")
        (self.state / "heartbeat").write_text("now")
        (self.state / "node_state.new").write_text("half")
        etc = folder / "etc"
        etc.mkdir()
        (etc / "slurm.conf").write_text(f"# test\nClusterName=lab\nStateSaveLocation={self.state}\n")
        (etc / "slurmdbd.conf").write_text(f"StorageLoc=acct_db\nStoragePass={PASSWORD}\n")
        (folder / "jobs").write_text("2\t100\t120\t7\n")
        programs.add("mariadb", MARIADB.replace("{folder}", str(folder)))
        self.dumps("echo 'CREATE TABLE lab_job_table;'; echo '-- Dump completed on'")
        programs.add("scontrol", "echo 'Slurmctld(primary) at ctl01 is UP'; exit 1")
        programs.add("squeue", "echo '7|PENDING|ada'")
        programs.add("dpkg-query", "printf 'ii \\tslurmctld\\tslurm-wlm\\t22.05.8-4\\n'")
        programs.add("systemctl", "echo inactive; exit 3")
        programs.add("setpriv", 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"')
        files = sys.modules["ansible_collections.gpufleet.rack.plugins.module_utils.slurm_files"]
        monkeypatch.setattr(files, "CONFIGURATION", etc)
        copies = sys.modules["ansible_collections.gpufleet.rack.plugins.module_utils.slurm_copies"]
        monkeypatch.setattr(copies, "CONFIGURATION", etc)
        monkeypatch.setattr(copies, "PAUSE_S", 0.01)
        self.etc = etc

    def dumps(self, script: str) -> None:
        self.programs.add("mariadb-dump", script)

    def asked(self) -> list[str]:
        path = self.folder / "asked"
        return path.read_text().splitlines() if path.exists() else []

    def kept(self) -> list[str]:
        return sorted(path.name for path in self.backups.iterdir() if path.name != ".lock")


def make(backup: ModuleType, controller: Controller, run: Run, **more: Any) -> dict[str, Any]:
    wanted: dict[str, Any] = {"cluster": "lab", "folder": str(controller.backups), "reserve_mib": 1}
    return run(backup, **wanted | more)


def restore_backup(restore: ModuleType, path: str, run: Run, **more: Any) -> dict[str, Any]:
    return run(restore, cluster="lab", path=path, upgrades=UPGRADES, **more)
