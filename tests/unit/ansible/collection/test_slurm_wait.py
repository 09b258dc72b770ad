"""Waiting for Slurm: responding daemons pass, and silent ones are named."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs, load

Run = Callable[..., dict[str, Any]]
SCONTROL = """\
case "$*" in
  ping) echo 'Slurmctld(primary) at ctl01 is UP'; echo 'Slurmctld(backup) at ctl02 is DOWN'; exit 1;;
  "show config") echo 'SLURM_VERSION           = 23.02.8';;
  *"show node"*) echo 'NodeName=dgx01 Arch=x86_64 Version=23.02.8 State=IDLE+DRAIN '
     echo 'NodeName=dgx02 Arch=x86_64 Version=22.05.8 State=IDLE '
     echo 'NodeName=dgx03 Version=23.02.8 State=DOWN+NOT_RESPONDING '
     echo 'NodeName=dgx04 Version=23.02.8 State=DOWN+DRAIN '
     echo 'NodeName=dgx05 Version=23.02.8 State=DOWN*+DRAIN '
     echo 'NodeName=dgx06 Version=23.02.8 State=DOWN '
     echo 'NodeName=dgx07 Version=23.02.8 State=DOWN+DRAIN+NOT_RESPONDING ';;
esac
"""


@pytest.fixture
def module(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    loaded = load("slurm_wait")
    monkeypatch.setattr(loaded, "PAUSE_S", 0.01)
    programs.add("scontrol", SCONTROL)
    programs.add("sacctmgr", "echo lab")
    programs.add("squeue", "echo 4; echo 5")
    programs.add("sacct", "echo 3")
    return loaded


@pytest.mark.parametrize(
    "wanted",
    [
        {"cluster": "lab"},
        {"controllers": ["ctl01"], "version": "23.02.8"},
        {"nodes": ["dgx01"], "version": "23.02.8"},
        {"nodes": ["dgx01", "dgx02", "dgx04"]},
        {"jobs": [3, 4, 5]},
    ],
)
def test_responding_daemons_pass(module: ModuleType, run: Run, wanted: dict[str, Any]) -> None:
    assert run(module, timeout_s=0, **wanted)["waited_s"] < 5


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"cluster": "other"}, "has no cluster other"),
        ({"controllers": ["ctl01", "ctl02"]}, "slurmctld on ctl02 does not answer"),
        ({"controllers": ["ctl01"], "version": "23.11.1"}, "slurmctld is 23.02.8 and has to be 23.11.1"),
        ({"nodes": ["dgx02"], "version": "23.02.8"}, "slurmd of dgx02 is 22.05.8 and has to be 23.02.8"),
        ({"nodes": ["dgx03"]}, "dgx03 is DOWN+NOT_RESPONDING"),
        ({"nodes": ["dgx05"]}, "dgx05 is DOWN*+DRAIN"),
        ({"nodes": ["dgx06"]}, "dgx06 is DOWN"),
        ({"nodes": ["dgx07"]}, "dgx07 is DOWN+DRAIN+NOT_RESPONDING"),
        ({"nodes": ["dgx09"]}, "Slurm does not know dgx09"),
        ({"jobs": [5, 6]}, "job 6 is neither in the queue nor in accounting"),
    ],
)
def test_silent_daemon_is_named_and_check_mode_does_not_wait(
    module: ModuleType, run: Run, wanted: dict[str, Any], message: str
) -> None:
    assert message in run(module, timeout_s=0, **wanted)["msg"]
    assert run(module, timeout_s=0, check=True, **wanted)["changed"] is False


def test_wait_repeats_until_the_daemon_answers(module: ModuleType, programs: Programs, run: Run) -> None:
    mark = programs.folder / "asked"
    programs.add("sacctmgr", f"[ -e {mark} ] && echo lab; touch {mark}; [ -s {programs.log} ]")
    assert run(module, cluster="lab", timeout_s=30)["changed"] is False
    assert len(programs.called("sacctmgr")) == 2


def test_unreachable_slurm_is_reported_separately_from_jobs(
    module: ModuleType, programs: Programs, run: Run
) -> None:
    programs.add("squeue", "exit 1")
    programs.add("sacctmgr", "exit 1")
    reported = run(module, jobs=[3], cluster="lab", timeout_s=0)["msg"]
    assert "slurmctld does not answer" in reported and "slurmdbd does not answer" in reported
