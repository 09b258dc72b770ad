"""SXids: fatal and harmless, from the kernel's log and Fabric Manager's, and how long they count."""

from __future__ import annotations

import time

import pytest
from health import sxid, xid_catalog
from health.kernel_log import Line

from .conftest import Node

SWITCH = "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, "
MANAGER = (
    "[{at}] [ERROR] [tid 12727] detected NVSwitch {severity} error {number} on fid 0 on NVSwitch pci bus id "
    "00000000:86:00.0 physical id 3 port 61\n"
)


def manager_line(at: float, severity: str, number: int) -> str:
    stamp = time.strftime("%b %d %Y %H:%M:%S", time.localtime(at))
    return MANAGER.format(at=stamp, severity=severity, number=number)


def test_the_lines_that_follow_an_sxid_are_no_others() -> None:
    log = (
        f"[    5.000001] {SWITCH}Fatal, Link 63 LTSSM Fault Up\n"
        f"[    5.000002] {SWITCH}Severity 1 Engine instance 60 Sub-engine instance 00\n"
        f"[    5.000003] {SWITCH}Data {{0x10000000, 0x10000000, 0x00000000}}\n"
    )
    assert sxid.parse(log) == [Line(5.000001, "0000:05:00", 20034, "Fatal, Link 63 LTSSM Fault Up")]


@pytest.mark.parametrize(
    ("number", "text", "action"),
    [
        (20034, "Fatal, Link 63 LTSSM Fault Up", "RESET"),
        (23001, "Fatal, ingress SRC-VC buffer overflow", "REBOOT"),
        (12028, "Non-fatal, Link 61", "MONITOR"),
        (10004, "Non-fatal, Host_thermal_event_start", "MONITOR"),
        (31999, "Fatal, new", "RESET"),
        (31999, "Non-fatal, new", "UNKNOWN"),
    ],
)
def test_the_action_of_an_sxid(number: int, text: str, action: str) -> None:
    assert sxid.action_of(Line(1.0, "0000:05:00", number, text)) == action


def test_no_sxid_is_in_two_classes() -> None:
    classes = (xid_catalog.SXIDS_NON_FATAL, xid_catalog.SXIDS_FATAL, xid_catalog.SXIDS_ALWAYS_FATAL)
    numbers = [number for each in (*classes, xid_catalog.SXIDS_OTHER) for number in each]
    assert len(numbers) == len(set(numbers)) == 93


def test_fabric_manager_s_log_counts_from_the_last_boot_on(node: Node) -> None:
    booted = 1_780_000_000
    node.file("proc/stat", f"cpu 1 2 3\nbtime {booted}")
    node.file("var/log/fabricmanager.log", manager_line(booted - 500, "fatal", 20034))
    node.run()
    assert node.found == {}
    text = manager_line(booted + 100, "fatal", 20034) + manager_line(booted + 101, "non-fatal", 12028)
    node.file("var/log/fabricmanager.log", text)
    node.run()
    node.run()
    assert node.found["sxid"] == ("drain", "NVSwitch 0000:86:00 SXid 20034 (Link 61): RESET")
    assert node.found["sxid_monitor"] == ("advise", "NVSwitch 0000:86:00 SXid 12028 (Link 61): MONITOR")
    assert 'gpufleet_health_sxids{sxid="20034",action="RESET"} 1' in node.metrics
    assert "gpufleet_health_xids{" not in node.metrics


def test_an_sxid_is_over_after_a_reboot_and_accepted_by_a_person_who_resumes_the_node(node: Node) -> None:
    node.log.append(f"[    5.000001] {SWITCH}Fatal, Link 63 LTSSM Fault Up")
    node.run()
    (order,) = node.orders
    node.slurm("IDLE+DRAIN", order.partition("Reason=")[2])
    node.run()
    node.slurm("IDLE")
    node.run()
    assert node.found["sxid_monitor"][1].endswith("accepted by a person")
    node.log = []
    node.file("proc/sys/kernel/random/boot_id", "second-boot")
    node.run()
    assert node.found == {}
