"""Xids: their actions, that each counts once, and when they are over."""

from __future__ import annotations

import json

import pytest
from health import xid
from health.config import Config
from health.gpus import short_bus

from .conftest import Node

MAP = {"ISOLATE": [54], "REBOOT": [79, 151, 168], "RESET": [48, 64, 95], "MONITOR": [13, 63, 144]}
OVERRIDES = {"A100": {"REBOOT": [64, 95]}}
NONE = "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"


def line(number: int, text: str = "") -> xid.Line:
    return xid.Line(1.0, "0000:1b:00", number, text)


@pytest.mark.parametrize(
    ("gpu", "number", "mig", "uvm", "action"),
    [
        ("H100", 79, False, True, "REBOOT"),
        ("H100", 54, False, True, "ISOLATE"),
        ("H100", 64, False, True, "RESET"),
        ("A100", 64, False, True, "REBOOT"),
        ("A100", 95, False, True, "REBOOT"),
        ("A100", 95, True, True, "RESET"),
        ("H100", 159, False, True, "RESET"),
        ("H100", 159, False, False, "MONITOR"),
        ("H100", 63, False, True, "MONITOR"),
        ("H100", 7, False, True, "UNKNOWN"),
    ],
)
def test_each_xid_has_its_documented_action(gpu: str, number: int, mig: bool, uvm: bool, action: str) -> None:
    config = Config(node="n", gpus=8, gpu=gpu, xid_actions=MAP, xid_overrides=OVERRIDES)
    assert xid.action_of(line(number), config, mig=mig, uvm_used=uvm) == action


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "RESET"),
        ("GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "REBOOT"),
        ("GPU recovery action changed from 0x1 (GPU Reset Required) to 0x4 (Drain and Reset)", "RESET"),
        (NONE, "MONITOR"),
    ],
)
def test_xid_154_states_its_own_action(text: str, action: str) -> None:
    assert xid.derived_action(text) == action


def test_kernel_log_lines_are_parsed_from_dmesg_and_the_journal() -> None:
    log = (
        "[12345.678901] NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, it fell off.\n"
        "[   99.000001] dgx01 kernel: NVRM: Xid (PCI:0000:C3:00): 13\n"
        "[   99.5] nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 12028, Non-fatal\n"
        "a program prints NVRM: Xid (PCI:0000:1b:00): 79\n"
    )
    read = xid.parse(log)
    assert [(each.at, each.bus, each.xid) for each in read] == [
        (99.000001, "0000:c3:00", 13),
        (12345.678901, "0000:1b:00", 79),
    ]
    assert read[1].text.endswith("it fell off.")
    assert short_bus("00000000:1B:00.0") == "0000:1b:00"
    assert short_bus("00000001:1B:00.0") == "0001:1b:00"


def drained(node: Node) -> bool:
    return "xid" in node.found


def test_xid_counts_until_the_reboot_even_if_the_log_is_gone(node: Node) -> None:
    node.xid(79)
    node.run()
    node.log = []
    node.run()
    assert node.found["xid"][1] == "GPU 0 Xid 79 (train): REBOOT"
    node.file("proc/sys/kernel/random/boot_id", "second-boot")
    node.run()
    assert not drained(node)


def test_xid_that_isolates_survives_a_reboot_until_a_person_clears_it(node: Node) -> None:
    node.xid(54, gpu=3)
    node.run()
    node.log = []
    node.file("proc/sys/kernel/random/boot_id", "second-boot")
    node.run()
    assert drained(node)
    from health.main import main

    assert main(["forget", "2"]) == 0
    node.run()
    assert drained(node)
    assert main(["forget", "3"]) == 0
    node.run()
    assert not drained(node)
    assert main(["forget", "9"]) == 2


def test_driver_reset_clears_only_xids_that_asked_for_a_reset(node: Node) -> None:
    node.xid(48, gpu=1, at=100)
    node.xid(79, gpu=2, at=100)
    node.gpus[1]["gpu_recovery_action"] = "GPU Reset"
    node.run()
    assert node.found["recovery_action"][1] == "GPU 1 the driver asks for: GPU Reset"
    node.gpus[1]["gpu_recovery_action"] = "None"
    node.run()
    assert node.found["xid"][1] == "GPU 2 Xid 79 (train): REBOOT"
    assert "recovery_action" not in node.found
    node.xid(48, gpu=1, at=200)
    node.run()
    reasons = [order.partition("Reason=")[2] for order in node.orders]
    assert "GPU 1 Xid 48 (train): RESET" in reasons[-1]


def test_xid_154_with_action_none_clears_it(node: Node) -> None:
    node.xid(48, gpu=1, at=100)
    node.xid(
        154, gpu=1, at=100.5, text="GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    )
    node.run()
    assert drained(node)
    node.xid(154, gpu=1, at=300, text=NONE)
    node.run()
    assert not drained(node)
    node.run()
    assert not drained(node)


def test_resume_by_a_person_accepts_the_xid_until_it_recurs(node: Node) -> None:
    node.xid(48, gpu=1, at=100)
    node.run()
    (order,) = node.orders
    node.slurm("IDLE+DRAIN", order.partition("Reason=")[2])
    node.run()
    node.slurm("IDLE")
    node.run()
    assert node.orders == []
    assert node.found["xid_monitor"] == ("advise", "GPU 1 Xid 48 (train): accepted by a person")
    assert node.run("prolog") == 0
    node.xid(48, gpu=1, at=500)
    node.run()
    assert node.found["xid"][1] == "GPU 1 Xid 48 (train), 2 times: RESET"
    assert len(node.orders) == 1


def test_xid_is_accepted_only_after_the_node_was_drained_for_it(node: Node) -> None:
    node.xid(48, gpu=1)
    node.answer("update.code", "1")
    node.run()
    node.run()
    assert drained(node)
    assert len(node.orders) == 2


def test_xid_that_is_only_monitored_is_reported_for_a_day(node: Node) -> None:
    node.xid(13)
    node.config["xid_monitor_hours"] = 24
    node.run()
    assert node.found["xid_monitor"][0] == "advise"
    assert node.orders == []
    state = node.root / "var/lib/gpufleet/health/state.json"
    values = json.loads(state.read_text())
    values["xids"][0]["noticed"] -= 25 * 3600
    state.write_text(json.dumps(values))
    node.run()
    assert node.found == {}


def test_text_from_a_user_process_is_not_in_the_reason(node: Node) -> None:
    node.xid(48, text="pid=1, name=evil; State=IDLE, DBE (double bit error)")
    node.run()
    (order,) = node.orders
    assert order.endswith("Reason=gpufleet: GPU 0 Xid 48 (DBE (double bit error)): RESET")


@pytest.mark.parametrize(
    ("number", "text", "action"),
    [
        (46, "GPU stopped processing", "RESET"),
        (62, "Internal micro-controller halt", "RESET"),
        (119, "Timeout after 6s of waiting for RPC response from GPU4 GSP!", "RESET"),
        (79, "GPU has fallen off the bus.", "REBOOT"),
        (151, "", "REBOOT"),
        (54, "", "ISOLATE"),
        (45, "Ch 00000001 caused by previous Xid 149", "MONITOR"),
        (171, "", "MONITOR"),
        (7, "", "UNKNOWN"),
        (999, "", "UNKNOWN"),
        # NVLink 5: by unit and errorStatus, by the reason of a link event, or by the severity of the line.
        (149, "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 0x00000000)", "RESET"),
        (149, "NETIR_LINK_DOWN Fatal XC0 i0 Link 08 (0x00400091 0x00000000 0x00000000)", "RESET"),
        (149, "NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x026001c6 0x00000000 0x00000000)", "MONITOR"),
        (149, "NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000 0x00000000)", "RESET"),
        (149, "NETIR_BER_EVENT Nonfatal XC0 i0 Link 03 (0x00086226 0x00000001 0x00000000)", "MONITOR"),
        (145, "RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008 0x00000001)", "MONITOR"),
        (145, "RLW_RXPIPE Fatal XC0 i0 Link 13 (0x000000c2 0x00000001 0x00000001)", "RESET"),
        (145, "pid=9, name=a, RLW_SRC_TRACK Nonfatal XC1 i0 Link 03 (0x040868e2 0x00000008 0x0)", "MONITOR"),
        (146, "TLW_TX_PIPE0 Nonfatal XC0 i0 Link 00 (0x0000000c 0x00000004 0x00000000)", "RESET"),
        (150, "MSE_WATCHDOG Fatal XC0 i0 Link -1 (0x00000000 0x00000000 0x00000000)", "RESET"),
        (144, "something new and Fatal", "RESET"),
        (147, "something new", "MONITOR"),
    ],
)
def test_an_xid_that_the_site_does_not_map_has_the_action_of_nvidias_catalog(
    number: int, text: str, action: str
) -> None:
    config = Config(node="n", gpus=8, gpu="B200")
    assert xid.action_of(line(number, text), config, mig=False, uvm_used=True) == action


def test_a_process_cannot_make_a_fatal_xid_harmless_by_its_name() -> None:
    text = (
        "pid=1, name=RLW_CTRL Nonfatal XC0 i0 Link 00 (0x0 0x0, "
        "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 0x00000000)"
    )
    assert xid.action_of(line(149, text), Config(node="n", gpus=8), mig=False, uvm_used=True) == "RESET"


CHANGED = "GPU recovery action changed from 0x{} to 0x{}"


def test_xid_154_to_reboot_right_after_reset_asks_for_a_reboot(node: Node) -> None:
    node.xid(154, gpu=1, at=100.0, text=CHANGED.format("0 (None)", "1 (GPU Reset Required)"))
    node.xid(154, gpu=1, at=100.4, text=CHANGED.format("1 (GPU Reset Required)", "2 (Node Reboot Required)"))
    node.run()
    assert node.found["xid"][1].endswith(": REBOOT")
    node.run()
    assert node.found["xid"][1].endswith("2 times: REBOOT")


def test_xid_154_to_reboot_within_a_second_of_the_last_run_is_not_missed(node: Node) -> None:
    node.xid(154, gpu=1, at=100.0, text=CHANGED.format("0 (None)", "1 (GPU Reset Required)"))
    node.run()
    node.xid(154, gpu=1, at=100.4, text=CHANGED.format("1 (GPU Reset Required)", "2 (Node Reboot Required)"))
    node.run()
    assert node.found["xid"][1].endswith(": REBOOT")


def test_a_harmless_nvlink_xid_after_a_fatal_one_takes_nothing_back(node: Node) -> None:
    node.xid(149, gpu=1, at=100.0, text="NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000 0x00000000)")
    node.xid(149, gpu=1, at=100.1, text="NETIR_BER_EVENT Nonfatal XC0 i0 Link 03 (0x00086226 0x00000001 0x0)")
    node.run()
    assert node.found["xid"] == ("drain", "GPU 1 Xid 149 (NETIR Fatal XC0 i0 Link -1): RESET")
    assert node.found["xid_monitor"][1].startswith("GPU 1 Xid 149 (NETIR_BER_EVENT Nonfatal")


def test_a_burst_of_one_xid_is_counted_whole_and_once(node: Node) -> None:
    for number in range(5):
        node.xid(13, gpu=2, at=100.0 + number / 1e4, text=f"Graphics SM Warp Exception on SM {number}")
    node.run()
    node.run()
    assert (
        node.found["xid_monitor"][1] == "GPU 2 Xid 13 (Graphics SM Warp Exception on SM 4), 5 times: MONITOR"
    )


def test_lines_of_mig_instances_old_drivers_and_lost_gpus_without_a_number_are_read() -> None:
    log = (
        "[    1.5] NVRM: Xid (PCI:0000:12:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel\n"
        "[    2.5] NVRM: Xid (0000:03:00): 14, Channel 00000001\n"
        "[    3.5] NVRM: GPU 0000:91:00.0: GPU has fallen off the bus.\n"
    )
    assert [(each.bus, each.xid) for each in xid.parse(log)] == [
        ("0000:12:00", 94),
        ("0000:03:00", 14),
        ("0000:91:00", 79),
    ]


def test_a_gpu_that_fell_off_the_bus_is_one_xid_although_the_driver_says_so_twice() -> None:
    log = (
        "[    3.5] NVRM: Xid (PCI:0000:91:00): 79, pid=1, name=x, GPU has fallen off the bus.\n"
        "[    3.6] NVRM: GPU 0000:91:00.0: GPU has fallen off the bus.\n"
    )
    assert [(each.bus, each.xid) for each in xid.parse(log)] == [("0000:91:00", 79)]
