"""Checks before slurmctld starts: it refuses a partial state, and waits for accounting of its host."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.unit.ansible.collection.conftest import PLUGINS, Programs

FILES = PLUGINS.parent / "roles" / "slurm_controller" / "files"


def start(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(FILES / program), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_slurmctld_does_not_start_on_a_partly_restored_state(programs: Programs, tmp_path: Path) -> None:
    programs.add("setpriv", 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"')
    state = tmp_path / "state"
    state.mkdir()
    assert start("slurm-state", str(state), str(state)).returncode == 0
    (state / ".restoring").mkdir()
    refused = start("slurm-state", str(state), str(state))
    assert refused.returncode == 1
    assert "did not come to its end" in refused.stderr


def test_slurmctld_waits_until_local_accounting_listens(programs: Programs, tmp_path: Path) -> None:
    listens = tmp_path / "listens"
    programs.add("ss", f"[ -e {listens} ] && echo LISTEN")
    programs.add("systemctl", "echo activating; exit 3")  # between two starts: no database yet
    threading.Timer(0.6, listens.touch).start()
    began = time.monotonic()
    assert start("slurm-accounting", "6819", "25").returncode == 0
    assert 0.5 < time.monotonic() - began < 15
    assert "ss -H -l -t -n sport = :6819" in programs.called("ss")


@pytest.mark.parametrize(("state", "limit"), [("failed", "25"), ("inactive", "25"), ("active", "0")])
def test_stopped_or_slow_accounting_is_not_waited_for(programs: Programs, state: str, limit: str) -> None:
    programs.add("ss", "exit 0")
    programs.add("systemctl", f"echo {state}; exit 3")
    began = time.monotonic()
    assert start("slurm-accounting", "6819", limit).returncode == 0
    assert time.monotonic() - began < 15
