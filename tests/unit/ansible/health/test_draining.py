"""Which nodes are drained, resumed, or left to an administrator."""

from __future__ import annotations

import json

import pytest
from health import draining, slurm
from health.config import Config
from health.finding import Finding

from .conftest import Node

REASON = "gpufleet: GPU 0 1 uncorrectable ECC errors"


def broken(node: Node) -> None:
    node.gpus[0]["ecc.errors.uncorrected.volatile.total"] = "1"


def repaired(node: Node) -> None:
    node.gpus[0]["ecc.errors.uncorrected.volatile.total"] = "0"


def drained_by_us(node: Node) -> None:
    broken(node)
    node.run()
    assert node.orders == [f"update NodeName=dgx01 State=DRAIN Reason={REASON}"]
    node.slurm("IDLE+DRAIN", REASON)


def test_node_is_drained_once_and_resumed_after_two_good_runs(node: Node) -> None:
    drained_by_us(node)
    node.run()
    assert node.orders == []
    repaired(node)
    node.run()
    assert node.orders == []
    node.run()
    assert node.orders == ["update NodeName=dgx01 State=RESUME"]
    node.slurm("IDLE")
    node.run()
    assert node.orders == []


@pytest.mark.parametrize("added", ["", " : Not responding"])
def test_node_that_slurm_sets_down_at_its_reboot_is_resumed(node: Node, added: str) -> None:
    """slurmctld 22.05 keeps the reason of a node that does not answer; from 23.02 on it appends to it."""
    drained_by_us(node)
    node.slurm("DOWN+DRAIN", f"{REASON}{added}")
    node.run()
    assert node.orders == []
    repaired(node)
    node.run()
    node.run()
    assert node.orders == ["update NodeName=dgx01 State=RESUME"]


@pytest.mark.parametrize("state", ["DOWN", "DOWN+DRAIN"])
def test_node_that_an_administrator_sets_down_is_theirs(node: Node, state: str) -> None:
    for begin in (broken, drained_by_us):
        node.slurm("IDLE")
        begin(node)
        node.slurm(state, "power supply is broken")
        node.run()
        assert node.orders == []
        assert "power supply is broken" in (node.bin / "node").read_text()
        repaired(node)
        for _ in range(4):
            node.run()
        assert node.orders == []


def test_unexpected_reboot_is_left_to_an_administrator(node: Node) -> None:
    """With ReturnToService=1 Slurm does not return such a node either."""
    node.slurm("DOWN", "Node unexpectedly rebooted")
    broken(node)
    assert node.run("epilog") == 0
    assert node.orders == []


def test_fault_between_good_runs_restarts_the_count(node: Node) -> None:
    drained_by_us(node)
    for good in (True, False, True):
        (repaired if good else broken)(node)
        node.run()
        assert node.orders == []
    node.run()
    assert node.orders == ["update NodeName=dgx01 State=RESUME"]


def test_reason_follows_the_current_faults(node: Node) -> None:
    drained_by_us(node)
    node.file("sys/module/nvidia/version", "570.1")
    node.run()
    both = "gpufleet: driver 570.1 is loaded instead of 580.159.03; GPU 0 1 uncorrectable ECC errors"
    assert node.orders == [f"update NodeName=dgx01 State=DRAIN Reason={both}"]


def test_manual_drain_is_neither_changed_nor_lifted(node: Node) -> None:
    node.slurm("IDLE+DRAIN", "new fans")
    broken(node)
    node.run()
    assert node.orders == []
    repaired(node)
    for _ in range(4):
        node.run()
    assert node.orders == []


def test_reason_edited_by_a_person_is_theirs(node: Node) -> None:
    drained_by_us(node)
    node.slurm("IDLE+DRAIN", f"{REASON}, RMA 12")
    repaired(node)
    for _ in range(4):
        node.run()
    assert node.orders == []


def test_reason_with_the_mark_that_the_check_did_not_write_is_manual(node: Node) -> None:
    node.run()
    node.slurm("IDLE+DRAIN", "gpufleet: to be decommissioned")
    for _ in range(4):
        node.run()
    assert node.orders == []


def test_mark_in_the_reason_decides_if_the_record_is_lost(node: Node) -> None:
    drained_by_us(node)
    repaired(node)
    (node.root / "var/lib/gpufleet/health/state.json").write_text("{broken")
    node.run()
    node.run()
    assert node.orders == ["update NodeName=dgx01 State=RESUME"]


def test_failed_resume_is_retried(node: Node) -> None:
    drained_by_us(node)
    repaired(node)
    node.answer("update.code", "1")
    node.run()
    node.run()
    assert len(node.orders) == 1
    node.answer("update.code", "0")
    node.run()
    assert node.orders == ["update NodeName=dgx01 State=RESUME"]


def test_prolog_drains_and_fails_and_never_resumes(node: Node) -> None:
    broken(node)
    assert node.run("prolog") == 1
    assert node.orders == [f"update NodeName=dgx01 State=DRAIN Reason={REASON}"]
    node.slurm("IDLE+DRAIN", REASON)
    repaired(node)
    for _ in range(3):
        assert node.run("prolog") == 0
    assert node.orders == []


def test_epilog_fails_only_where_slurm_must_drain(node: Node) -> None:
    broken(node)
    assert node.run("epilog") == 0
    assert len(node.orders) == 1
    node.slurm("IDLE")
    node.answer("update.code", "1")
    assert node.run("epilog") == 1
    node.answer("node.code", "1")
    node.answer("node", "slurm_load_node error: Unable to contact slurm controller")
    assert node.run("epilog") == 1


def test_nothing_is_lost_without_a_controller(node: Node) -> None:
    broken(node)
    node.answer("node", "")
    node.answer("node.code", "1")
    assert node.run() == 0
    assert node.found["ecc"][0] == "drain"
    assert node.orders == []
    node.answer("node.code", "0")
    node.slurm("IDLE")
    node.run()
    assert node.orders == [f"update NodeName=dgx01 State=DRAIN Reason={REASON}"]


def test_host_without_slurm_gets_no_orders(node: Node) -> None:
    node.config["slurm"] = False
    broken(node)
    assert node.run() == 0
    assert node.orders == []
    assert "gpufleet_health_healthy 0" in node.metrics


def test_show_changes_nothing(node: Node) -> None:
    broken(node)
    shown = node.show()
    assert shown["healthy"] is False
    assert node.orders == []
    assert not (node.root / "var/lib/gpufleet/health/findings.json").exists()


def test_unreadable_configuration_is_a_finding(node: Node) -> None:
    node.config["colour"] = "red"
    assert node.run("prolog") == 1
    assert node.run() == 1


def test_an_unknown_mode_is_refused(node: Node) -> None:
    assert node.run("sometimes") == 2


def test_node_state_and_reason_are_parsed_with_any_content() -> None:
    text = (
        "NodeName=dgx01 Arch=x86_64 Gres=gpu:8 OS=Linux 6.8.0 State=MIXED+DRAIN ThreadsPerCore=2 "
        "CfgTRES=cpu=224,gres/gpu=8 Reason=see [12] in State=X [root@2026-11-21T17:35:39] Comment=(null)"
    )
    assert slurm.parse(text) == slurm.SlurmNode("MIXED+DRAIN", "see [12] in State=X")
    added = text.replace(" [root@", " : Not responding [slurm@")
    assert slurm.parse(added) == slurm.parse(text)
    assert slurm.parse("State=DOWN* Reason=Not responding [slurm@now] ") == slurm.SlurmNode(
        "DOWN*", "Not responding"
    )
    assert slurm.parse("State=IDLE ThreadsPerCore=1") == slurm.SlurmNode("IDLE", "")
    assert slurm.parse("Node dgx01 not found") is None


def test_reason_is_one_short_line_of_ascii() -> None:
    many = [Finding("disk", f"/path{n}", "ist voll\nund über") for n in range(40)]
    reason = draining.reason_of(many, "gpufleet: ")
    assert len(reason) == draining.MOST
    assert reason.isascii() and "\n" not in reason
    assert reason.startswith("gpufleet: /path0 ist voll und ")


def test_drain_depends_on_state_and_not_only_on_reason() -> None:
    config = Config(node="dgx01", gpus=8, recovery_runs=1)
    fault = [Finding("disk", "/", "is full")]
    for state in ("IDLE", "ALLOCATED", "MIXED+PLANNED"):
        assert draining.decide(slurm.SlurmNode(state, "old words"), fault, config, "", 0).do == "drain"
    # Slurm returns such a node when it answers again.
    silent = slurm.SlurmNode("DOWN*", "Not responding")
    assert draining.decide(silent, fault, config, "", 0).do == "drain"
    ours = slurm.SlurmNode("ALLOCATED+DRAIN", "gpufleet: / is full")
    assert draining.decide(ours, fault, config, ours.reason, 0) == draining.Order()
    assert draining.decide(ours, [], config, ours.reason, 1).do == "undrain"
    assert draining.decide(ours, [], config, ours.reason, 0) == draining.Order()


def test_new_and_resolved_findings_are_logged_to_the_journal(node: Node) -> None:
    broken(node)
    node.run()
    state = node.root / "var/lib/gpufleet/health/state.json"
    assert json.loads(state.read_text())["told"] == ["ecc: GPU 0 1 uncorrectable ECC errors"]
    repaired(node)
    node.run()
    assert json.loads(state.read_text())["told"] == []
    assert state.stat().st_mode & 0o777 == 0o600
