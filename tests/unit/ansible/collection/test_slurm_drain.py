"""Draining for operations: which nodes may be resumed, which jobs are waited for, and timeouts."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.unit.ansible.collection.conftest import Programs, load

OURS = "gpufleet operate: upgrade_driver by ada [root@2026-01-05T10:00:00]"
GIVEN = {"node": "dgx01", "operation": "upgrade_driver", "by": "ada"}
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def module() -> ModuleType:
    return load("slurm_drain")


class Slurm:
    """scontrol and squeue of a cluster with one node; what is changed is kept in a file."""

    def __init__(self, programs: Programs) -> None:
        self.programs = programs
        self.state, self.jobs = programs.folder / "state", programs.folder / "jobs"
        self.set("IDLE")
        self.jobs.write_text("")
        programs.add(
            "scontrol",
            f'case "$1" in -o) cat {self.state};; update) for w; do case "$w" in '
            "State=DRAIN) s=IDLE+DRAIN;; State=RESUME) s=IDLE; r=;; Reason=*) r=${w#Reason=};; esac; done; "
            f'echo "NodeName=dgx01 Arch=x86_64 State=$s Reason=$r [root@now]" >{self.state};; esac',
        )
        programs.add(
            "squeue",
            f'case "$*" in *%u*) echo "12 of grace (train, RUNNING)";; *) cat {self.jobs};; esac',
        )

    def set(self, state: str, reason: str = "") -> None:
        self.state.write_text(f"NodeName=dgx01 Arch=x86_64 State={state} Reason={reason}\n")

    @property
    def updates(self) -> list[str]:
        return [line for line in self.programs.called("scontrol") if " update " in line]


@pytest.fixture
def slurm(programs: Programs) -> Slurm:
    return Slurm(programs)


def test_node_is_drained_once_with_a_reason_that_names_the_operation(
    module: ModuleType, run: Run, slurm: Slurm
) -> None:
    foreseen = run(module, check=True, state="drained", **GIVEN)
    assert slurm.updates == []
    done = run(module, state="drained", **GIVEN)
    assert slurm.updates == [
        "scontrol update NodeName=dgx01 State=DRAIN Reason=gpufleet operate: upgrade_driver by ada"
    ]
    assert foreseen["changed"] is done["changed"] is True
    again = run(module, state="drained", **GIVEN | {"by": "grace"})
    assert again["changed"] is False
    assert again["ours"] is True
    assert len(slurm.updates) == 1


def test_job_over_the_time_limit_is_named_and_the_node_is_resumed(
    module: ModuleType, run: Run, slurm: Slurm
) -> None:
    slurm.jobs.write_text("12\n")
    failed = run(module, state="drained", wait_s=0, **GIVEN)
    assert "dgx01 still runs 1 job after 0 s: 12 of grace (train, RUNNING)." in failed["msg"]
    assert "was given back and takes jobs again" in failed["msg"]
    assert slurm.updates[-1] == "scontrol update NodeName=dgx01 State=RESUME"


def test_timeout_on_a_manually_drained_node_keeps_that_drain(
    module: ModuleType, run: Run, slurm: Slurm
) -> None:
    slurm.set("IDLE+DRAIN", "disk is being replaced [ada@now]")
    slurm.jobs.write_text("12\n")
    failed = run(module, state="drained", wait_s=0, **GIVEN)
    assert "The node stays drained, as it was before" in failed["msg"]
    assert slurm.updates == []


def test_drain_succeeds_when_the_job_ends_in_time(
    module: ModuleType, run: Run, slurm: Slurm, programs: Programs
) -> None:
    slurm.jobs.write_text("12\n")
    programs.add("squeue", f"cat {slurm.jobs}; : >{slurm.jobs}")
    done = run(module, state="drained", wait_s=30, poll_s=0.01, **GIVEN)
    assert done["changed"] is True
    assert [line for line in slurm.updates if "RESUME" in line] == []


@pytest.mark.parametrize(
    "reason",
    [
        "disk is being replaced [ada@now]",
        "gpufleet: GPU 3 Xid 79 [root@now]",
        "gpufleet operate: decommission by ada [root@now]",
    ],
)
def test_drains_of_others_are_never_undone(module: ModuleType, run: Run, slurm: Slurm, reason: str) -> None:
    slurm.set("IDLE+DRAIN", reason)
    answer = run(module, state="returned", **GIVEN)
    assert answer["changed"] is answer["ours"] is False
    assert slurm.updates == []


def test_node_drained_by_the_operation_is_resumed_once_by_any_run(
    module: ModuleType, run: Run, slurm: Slurm
) -> None:
    slurm.set("IDLE+DRAIN", OURS)
    assert run(module, check=True, state="returned", **GIVEN)["changed"] is True
    assert slurm.updates == []
    assert run(module, state="returned", **GIVEN | {"by": "grace"})["changed"] is True
    assert run(module, state="returned", **GIVEN)["changed"] is False
    assert slurm.updates == ["scontrol update NodeName=dgx01 State=RESUME"]


def test_unreachable_node_is_waited_for_and_then_reported(module: ModuleType, run: Run, slurm: Slurm) -> None:
    slurm.set("DOWN*+DRAIN", OURS)
    failed = run(module, state="ready", wait_s=0, **GIVEN)
    assert "dgx01 does not answer Slurm's controller after 0 s: it is" not in failed["msg"]
    assert "DOWN*+DRAIN gpufleet operate: upgrade_driver" in failed["msg"]
    slurm.set("IDLE+DRAIN", OURS)
    assert run(module, state="ready", wait_s=0, **GIVEN)["ours"] is True


@pytest.mark.parametrize("reason", [OURS, OURS.replace(" [root", " : Not responding [slurm")])
def test_node_that_slurm_set_down_for_its_reboot_is_ready_and_resumed(
    module: ModuleType, run: Run, slurm: Slurm, reason: str
) -> None:
    slurm.set("DOWN+DRAIN", reason)
    assert run(module, state="ready", wait_s=0, **GIVEN)["ours"] is True
    assert run(module, state="returned", **GIVEN)["changed"] is True
    assert slurm.updates == ["scontrol update NodeName=dgx01 State=RESUME"]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("DOWN*+DRAIN", OURS),
        ("DOWN+DRAIN+NOT_RESPONDING", OURS),
        ("IDLE+DRAIN+POWERING_DOWN", OURS),
        ("DOWN+DRAIN", "disk is being replaced [ada@now]"),
        ("DOWN", "Not responding [slurm@now]"),
        ("DOWN", ""),
    ],
)
def test_other_node_that_is_down_is_not_ready(
    module: ModuleType, run: Run, slurm: Slurm, state: str, reason: str
) -> None:
    slurm.set(state, reason)
    assert f": {state}" in run(module, state="ready", wait_s=0, **GIVEN)["msg"]


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        ("power supply is broken [ada@now]", False),
        ("gpufleet operate: decommission by ada [root@now]", False),
        ("Not responding [slurm@now]", True),
        ("Node unexpectedly rebooted [slurm@now]", True),
        ("", True),
    ],
)
def test_node_that_an_administrator_set_down_keeps_its_reason(
    module: ModuleType, run: Run, slurm: Slurm, reason: str, ours: bool
) -> None:
    slurm.set("DOWN", reason)
    answer = run(module, state="drained", **GIVEN)
    assert answer["ours"] is answer["changed"] is ours
    assert bool(slurm.updates) is ours


def test_unreachable_controller_is_an_error_and_not_a_drained_node(
    module: ModuleType, run: Run, programs: Programs
) -> None:
    programs.add("scontrol", "echo slurm_load_node error: Unable to contact slurm controller >&2; exit 1")
    failed = run(module, state="drained", **GIVEN)
    assert "Unable to contact slurm controller" in failed["msg"]
    assert "scontrol ping" in failed["msg"]
