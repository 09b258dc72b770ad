"""The verdict in the middle of an operation: the judges of verify, but for its own drain."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpufleet.racks.operations.evaluation import roles_of_host, verdict, without_own_drain
from gpufleet.racks.verify.expected import measuring_roles
from tests.conftest import ROOT
from tests.unit.racks.verify.samples import NODE_STATE, VALUES, measured

PROJECT = ROOT / "ansible"
ROLES = ("nvidia_driver", "slurm_node")
DRAINED = NODE_STATE.replace("State=IDLE", "State=IDLE+DRAIN").rstrip()
OURS = f"{DRAINED} Reason=gpufleet operate: upgrade_driver by ada [root@2026-01-05T10:00:00]\n"


def answers(state: str = NODE_STATE, **more: Any) -> dict[str, Any]:
    found = {role: {"measurements": dict(measured(role).found), "changed": False} for role in ROLES}
    found["slurm_node"]["measurements"]["slurm_node_state"] = {"rc": 0, "stdout": state, "stderr": ""}
    return found | more


def judged(found: dict[str, Any], operation: str = "upgrade_driver") -> list[str]:
    return verdict(PROJECT, "dgx01", ROLES, found, VALUES, operation=operation)


def test_node_drained_for_this_operation_passes() -> None:
    assert judged(answers()) == []
    assert judged(answers(OURS)) == []


@pytest.mark.parametrize("reason", ["by ada", "by ada : Not responding"])
def test_node_that_slurm_has_set_down_for_its_reboot_passes(reason: str) -> None:
    assert judged(answers(OURS.replace("IDLE+DRAIN", "DOWN+DRAIN").replace("by ada", reason))) == []


@pytest.mark.parametrize(
    "state",
    [
        OURS.replace("upgrade_driver", "decommission"),
        OURS.replace("gpufleet operate: upgrade_driver", "disk is being replaced"),
        OURS.replace("upgrade_driver", "decommission").replace("IDLE+DRAIN", "DOWN+DRAIN"),
        OURS.replace("IDLE+DRAIN", "DOWN*+DRAIN"),
        OURS.replace("IDLE+DRAIN", "DOWN+DRAIN+NOT_RESPONDING"),
        OURS.replace("IDLE+DRAIN", "IDLE*+DRAIN"),
    ],
)
def test_node_drained_by_others_or_down_fails(state: str) -> None:
    (wrong,) = judged(answers(state))
    assert wrong.startswith("slurm_node: state: it is ")


def test_node_fault_and_every_missing_measurement_are_reported() -> None:
    found = answers(OURS)
    gpus = found["nvidia_driver"]["measurements"]["nvidia_driver_gpus"]
    found["nvidia_driver"]["measurements"]["nvidia_driver_gpus"] = gpus | {
        "stdout": "".join(gpus["stdout"].splitlines(True)[:7])
    }
    assert judged(found) == ["nvidia_driver: gpus: 7 GPUs answer instead of 8"]
    for missing in ({"skipped": True}, None, {"measurements": {}}):
        wrong = judged(answers(nvidia_driver=missing))
        assert len(wrong) > 3
        assert all(line.startswith("nvidia_driver: ") for line in wrong)


def test_only_the_drain_flag_is_removed_from_the_state() -> None:
    state = "NodeName=dgx01 State=MIXED+DRAIN+PLANNED Reason=gpufleet operate: x by ada [root@now]"
    assert "State=MIXED+PLANNED " in without_own_drain(state, "x")
    assert without_own_drain(state, "") == without_own_drain(state, "y") == state


def test_host_measures_the_roles_of_its_groups() -> None:
    groups = {"rack_hosts": ["dgx01", "ctl01"], "rack_gpu_nodes": ["dgx01"], "rack_slurm": ["ctl01"]}
    assert {"base", "nvidia_driver"} <= set(roles_of_host(PROJECT, groups, "dgx01"))
    assert "nvidia_driver" not in roles_of_host(PROJECT, groups, "ctl01")
    assert "munge" in roles_of_host(PROJECT, groups, "ctl01")


def test_every_role_writes_its_measurements_where_the_verdict_reads() -> None:
    for _, role in measuring_roles(PROJECT):
        (task, *_) = yaml.safe_load((PROJECT / "roles" / role / "tasks" / "verify.yml").read_text())[-1:]
        assert task.get("register") == f"{role}__verified", role
