"""Every check of the health check: its faults, and no finding on a healthy node."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from health.finding import ACTIONS

from .conftest import Node

Break = Callable[[Node], None]


def gpu(index: int, **fields: str) -> Break:
    values = {name.replace("__", "."): value for name, value in fields.items()}
    return lambda node: node.gpus[index].update(values)


def one_gone_from_the_bus(node: Node) -> None:
    for path in (node.root / "sys/bus/pci/devices/0000:61:00.0").iterdir():
        path.unlink()


def one_gone_from_the_driver(node: Node) -> None:
    del node.gpus[3]


def lost(node: Node) -> None:
    node.gpus = []
    node.answer("gpus.code", "15")


def other_driver(node: Node) -> None:
    node.file("sys/module/nvidia/version", "580.126.20")


def no_driver(node: Node) -> None:
    (node.root / "sys/module/nvidia/version").unlink()


def failed_row(node: Node) -> None:
    node.rows[2][2] = "Yes"


def pending_row(node: Node) -> None:
    node.rows[2][1] = "Yes"


def link_down(node: Node) -> None:
    node.links[4, 17] = "<inactive>"


def no_fabric_manager(node: Node) -> None:
    node.answer("fabric", "failed")


def port(number: int, **changes: str) -> Break:
    return lambda node: node.port(number, **changes)


def no_port(node: Node) -> None:
    (node.root / "sys/class/infiniband/mlx5_5").rename(node.root / "gone")


def narrow_adapter(node: Node) -> None:
    node.port(1, **{"../../device/current_link_width": "8"})


def xid(number: int) -> Break:
    return lambda node: node.xid(number, gpu=5)


def no_log(node: Node) -> None:
    node.program(
        "dmesg", "#!/bin/sh\necho 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1\n"
    )


def no_room(node: Node) -> None:
    node.config["disk_min_free_percent"] = 101


def no_path(node: Node) -> None:
    (node.root / "scratch").rmdir()


def remounted(node: Node) -> None:
    node.file("proc/self/mountinfo", "25 30 8:1 / /data ro,noatime - ext4 /dev/sda1 ro,errors=remount-ro")


def clock(offset: str, leap: str = "Normal") -> Break:
    return lambda node: node.answer("clock", f"0,ntp1,3,1700000000.0,{offset},0,0,0,0,0,0,0,64.0,{leap}")


def no_chrony(node: Node) -> None:
    node.program("chronyc", "#!/bin/sh\necho '506 Cannot talk to daemon'; exit 1\n")


def bad_dimm(node: Node) -> None:
    node.file("sys/devices/system/edac/mc/mc0/ue_count", "1")


def logged(text: str) -> Break:
    return lambda node: node.log.append(f"[  100.000001] {text}")


SXID = "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): "
PEERMEM = (
    "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing"
)
MLX5 = "mlx5_core 0000:5c:00.0: "


def corrupt_inforom(node: Node) -> None:
    node.answer("warning", "WARNING: infoROM is corrupted at gpu 0000:52:00.0")
    node.answer("gpus.code", "14")


def no_answer_below_rows(node: Node) -> None:
    node.answer("warning", "Unable to determine the device handle for GPU5: 0000:C3:00.0: Unknown Error")
    node.answer("gpus.code", "15")


FAULTS: list[tuple[str, Break, str]] = [
    ("gpu_count", one_gone_from_the_bus, "7 of 8 GPUs on the PCI bus"),
    ("gpu_count", one_gone_from_the_driver, "7 of 8 GPUs in nvidia-smi"),
    ("gpu_count", lost, "nvidia-smi: exit code 15"),
    (
        "gpu_count",
        no_answer_below_rows,
        "nvidia-smi: Unable to determine the device handle for GPU5: 0000:C3:00.0: Unknown Error",
    ),
    (
        "gpu_count",
        gpu(4, ecc__errors__uncorrected__volatile__total="[GPU requires reset]"),
        "GPU 4 cannot be read: [GPU requires reset]",
    ),
    ("inforom", corrupt_inforom, "GPU 2 its InfoROM is corrupt"),
    ("driver", other_driver, "driver 580.126.20 is loaded instead of 580.159.03"),
    ("driver", no_driver, "the driver is not loaded"),
    ("ecc", gpu(1, ecc__errors__uncorrected__volatile__total="3"), "GPU 1 3 uncorrectable ECC errors"),
    ("ecc", gpu(1, ecc__mode__current="Disabled"), "GPU 1 ECC is off"),
    ("memory_repair_failed", failed_row, "GPU 2 a row could not be remapped"),
    ("memory_repair_pending", pending_row, "GPU 2 a row waits to be remapped"),
    ("memory_repair_pending", gpu(6, retired_pages__pending="Yes"), "GPU 6 a page waits to be retired"),
    (
        "memory_repair_failed",
        gpu(6, retired_pages__single_bit_ecc__count="20", retired_pages__double_bit__count="45"),
        "GPU 6 65 retired pages, limit 60",
    ),
    ("recovery_action", gpu(7, gpu_recovery_action="GPU Reset"), "GPU 7 the driver asks for: GPU Reset"),
    ("xid", xid(79), "GPU 5 Xid 79 (train): REBOOT"),
    ("xid", xid(48), "GPU 5 Xid 48 (train): RESET"),
    ("xid", xid(54), "GPU 5 Xid 54 (train): ISOLATE"),
    (
        "xid",
        no_log,
        "the kernel's log was not read: dmesg: read kernel buffer failed: Operation not permitted",
    ),
    ("xid_monitor", xid(63), "GPU 5 Xid 63 (train): MONITOR"),
    ("xid_monitor", xid(999), "GPU 5 Xid 999 (train): UNKNOWN"),
    (
        "sxid",
        logged(f"{SXID}20034, Fatal, Link 63 LTSSM Fault Up"),
        "NVSwitch 0000:05:00 SXid 20034 (Link 63 LTSSM Fault Up): RESET",
    ),
    (
        "sxid",
        logged(f"{SXID}22003, Fatal, Minion Halt"),
        "NVSwitch 0000:05:00 SXid 22003 (Minion Halt): REBOOT",
    ),
    (
        "sxid_monitor",
        logged(f"{SXID}12028, Non-fatal, Link 32 egress non-posted PRIV error (First)"),
        "NVSwitch 0000:05:00 SXid 12028 (Link 32 egress non-posted PRIV error (First)): MONITOR",
    ),
    ("sxid_monitor", logged(f"{SXID}31999, Non-fatal, new"), "NVSwitch 0000:05:00 SXid 31999 (new): UNKNOWN"),
    ("peermem", logged(PEERMEM), "nvidia-peermem reports an invalid context"),
    (
        "adapter_power",
        logged(f"{MLX5}mlx5_pcie_event:299:(pid 26): Detected insufficient power on the PCIe slot (27W)."),
        "0000:5c:00.0 too little power from the PCIe slot",
    ),
    (
        "adapter_temperature",
        logged(
            "mlx5_port_module_event:1131:(pid 0): Port module event[error]: "
            "module 0, Cable error, High Temperature"
        ),
        "a transceiver or cable is too hot",
    ),
    (
        "adapter_firmware",
        logged(f"{MLX5}mlx5_cmd_out_err:838:(pid 268269): ACCESS_REG(0x805) op_mod(0x1) failed, status bad"),
        "0000:5c:00.0 its firmware refuses to be read",
    ),
    ("nvlink", link_down, "GPU 4 NVLink 17 is inactive"),
    ("fabric_manager", no_fabric_manager, "Fabric Manager is failed"),
    (
        "fabric_manager",
        gpu(0, fabric__state="In Progress", fabric__status="N/A"),
        "GPU 0 is not in the NVLink fabric: In Progress, N/A",
    ),
    ("pcie_width", gpu(3, pcie__link__width__current="8"), "GPU 3 PCIe link x8 of x16"),
    ("pcie_width", narrow_adapter, "mlx5_1 PCIe link x8 of x16"),
    (
        "pcie_generation",
        gpu(3, pcie__link__gen__current="3", utilization__gpu="80"),
        "GPU 3 PCIe generation 3 of 5 under load",
    ),
    (
        "throttle_software",
        gpu(2, clocks_event_reasons__sw_thermal_slowdown="Active", temperature__gpu="86"),
        "GPU 2 the driver lowers its clocks at 86 C",
    ),
    ("port", port(2, rate="200 Gb/sec (4X HDR)"), "mlx5_2 at 200 Gb/s instead of 400"),
    ("port", port(2, state="1: DOWN", phys_state="2: Polling"), "mlx5_2 is DOWN (Polling)"),
    ("port", port(2, link_layer="Ethernet"), "mlx5_2 is Ethernet instead of InfiniBand"),
    ("port", no_port, "7 of 8 ports are there"),
    ("disk", no_path, "/scratch was not measured: No such file or directory"),
    ("read_only", remounted, "/data is read-only"),
    ("clock", clock("-30.5"), "the clock is 30.5 s off, limit 1 s"),
    ("clock_source", clock("0.0", "Not synchronised"), "the clock is not synchronised"),
    ("clock_source", no_chrony, "chrony does not answer: 506 Cannot talk to daemon"),
    ("memory_errors", bad_dimm, "1 uncorrectable errors of the host's memory"),
]


def test_healthy_node_has_no_findings_and_sends_no_orders(node: Node) -> None:
    assert node.run() == 0
    assert node.found == {}
    assert node.orders == []
    assert node.run("prolog") == 0
    assert node.run("epilog") == 0


@pytest.mark.parametrize(("check", "fault", "reported"), FAULTS)
def test_fault_is_found_and_drains_or_advises(node: Node, check: str, fault: Break, reported: str) -> None:
    fault(node)
    assert node.run() == 0
    assert node.found[check] == (ACTIONS[check], reported)
    drained = any(action == "drain" for action, _ in node.found.values())
    assert [order.split(" Reason=")[0] for order in node.orders] == (
        ["update NodeName=dgx01 State=DRAIN"] if drained else []
    )
    assert drained == (ACTIONS[check] == "drain")


def test_every_check_has_a_case() -> None:
    elsewhere = {
        "throttle",
        "port_flaps",
        "port_errors",
        "nvlink_errors",
        "memory",
        "dcgm",
        "dcgm_monitor",
        "dcgm_diag",
        "dcgm_diag_monitor",
    }
    # test_ports.py and test_adapter_log.py.
    elsewhere |= {"adapter", "port_counters", "nvswitch_bridge", "ibstat"}
    assert {check for check, _, _ in FAULTS} | elsewhere | {"disk"} == set(ACTIONS)


def test_disk_without_room_drains(node: Node) -> None:
    no_room(node)
    node.run()
    action, reported = node.found["disk"]
    assert action == "drain"
    assert reported.startswith("/scratch ") and reported.endswith("101% are needed")


def test_idle_link_in_power_saving_is_not_a_fault(node: Node) -> None:
    gpu(3, pcie__link__gen__current="1")(node)
    node.run()
    assert node.found == {}


def test_read_only_mount_in_fstab_is_not_a_fault(node: Node) -> None:
    remounted(node)
    node.file("etc/fstab", "/dev/sda1 /data ext4 ro 0 0")
    node.run()
    assert node.found == {}


def test_hardware_slowdown_drains_when_it_is_seen_twice_in_a_row(node: Node) -> None:
    hot = gpu(
        2, clocks_event_reasons__hw_slowdown="Active", clocks_event_reasons__hw_thermal_slowdown="Active"
    )
    hot(node)
    node.run()
    assert node.found["throttle"] == ("advise", "GPU 2 is slowed down by its temperature")
    node.run("prolog")
    assert node.found["throttle"][0] == "advise"
    gpu(
        2,
        **dict.fromkeys(
            ("clocks_event_reasons__hw_slowdown", "clocks_event_reasons__hw_thermal_slowdown"), "Not Active"
        ),
    )(node)
    node.run()
    assert node.found == {}
    hot(node)
    node.run()
    node.run()
    assert node.found["throttle"][0] == "drain"


def test_flapping_link_drains_after_five_times_in_a_day(node: Node) -> None:
    node.run()
    node.port(3, **{"counters/link_downed": "4"})
    node.run()
    assert node.found == {}
    node.port(3, **{"counters/link_downed": "5"})
    node.run()
    assert node.found["port_flaps"] == ("drain", "mlx5_3 went down 5 times in 24 h")


def test_only_the_growth_of_counters_counts_where_a_limit_is_set(node: Node) -> None:
    node.port(3, **{"counters/symbol_error": "4000000"})
    node.config["port_errors_per_hour"] = {"symbol_error": 10}
    node.run()
    assert node.found == {}
    node.port(3, **{"counters/symbol_error": "4000100"})
    node.run()
    action, reported = node.found["port_errors"]
    assert action == "advise"
    assert reported.startswith("mlx5_3 symbol_error: ")
    # The counters were reset.
    node.port(3, **{"counters/symbol_error": "0"})
    node.run()
    assert node.found == {}


def test_errors_without_a_limit_are_only_in_the_metrics(node: Node) -> None:
    node.run()
    node.port(3, **{"counters/symbol_error": "100"})
    node.link_errors[4, 2] = 1000
    node.run()
    assert node.found == {}
    assert 'gpufleet_health_port_errors_per_hour{device="mlx5_3",counter="symbol_error"}' in node.metrics


def test_nvlink_errors_are_reported_where_a_limit_is_set(node: Node) -> None:
    node.config["nvlink_errors_per_hour"] = 10
    node.run()
    node.link_errors[4, 2] = 1000
    node.run()
    assert node.found["nvlink_errors"][1].startswith("GPU 4 ")


def test_lost_memory_is_reported_until_a_person_accepts_it(node: Node) -> None:
    node.run()
    node.file("proc/meminfo", "MemTotal: 1936000000 kB\nMemAvailable: 1900000000 kB")
    node.run()
    assert node.found["memory"] == ("drain", "1846 GiB of memory, it had 1907")
    from health.main import main

    assert main(["forget", "memory"]) == 0
    node.run()
    assert node.found == {}


def test_unnamed_ports_may_be_slower_while_enough_are_good(node: Node) -> None:
    node.port(8, rate="200 Gb/sec (4X HDR)")
    node.run()
    assert node.found == {}
    node.config["devices"] = [f"mlx5_{number}" for number in range(1, 9)]
    node.run()
    assert node.found["port"] == ("drain", "mlx5_8 at 200 Gb/s instead of 400")
    node.config["devices"] = ["mlx5_0", "mlx5_11"]
    node.run()
    assert node.found["port"] == ("drain", "mlx5_11 is not there")


def test_port_that_was_good_is_reported_even_if_enough_others_are_good(node: Node) -> None:
    node.port(8)
    node.run()
    assert node.found == {}
    node.port(2, state="1: DOWN", phys_state="2: Polling")
    node.run()
    assert node.found["port"] == ("drain", "mlx5_2 is DOWN (Polling)")
    from health.main import main

    assert main(["forget", "ports"]) == 0
    node.run()
    assert node.found == {}


def test_missing_port_is_named_if_it_was_seen_before(node: Node) -> None:
    node.run()
    no_port(node)
    node.run()
    assert node.found["port"] == ("drain", "mlx5_5 is not there")


def test_node_without_nvswitches_needs_no_fabric_manager(node: Node) -> None:
    node.config["nvswitches"] = 0
    node.answer("fabric", "inactive")
    node.run()
    assert node.found == {}


def test_gpu_in_mig_mode_has_no_links_to_judge(node: Node) -> None:
    link_down(node)
    gpu(4, mig__mode__current="Enabled")(node)
    node.run()
    assert node.found == {}


def test_unsupported_driver_fields_are_requested_only_once(node: Node) -> None:
    (node.bin / "old-driver").touch()
    node.run()
    assert node.found == {}
    gpu(1, ecc__errors__uncorrected__volatile__total="3")(node)
    node.run()
    assert node.found["ecc"] == ("drain", "GPU 1 3 uncorrectable ECC errors")
    assert (
        '"unsupported": [\n  "fabric.state"' in (node.root / "var/lib/gpufleet/health/state.json").read_text()
    )


def test_configuration_sets_the_action_of_a_check(node: Node) -> None:
    node.config["actions"] = {"port": "advise", "ecc": "off"}
    port(2, rate="200 Gb/sec (4X HDR)")(node)
    gpu(1, ecc__errors__uncorrected__volatile__total="3")(node)
    node.run()
    assert node.found == {"port": ("advise", "mlx5_2 at 200 Gb/s instead of 400")}
    assert node.orders == []
    assert 'check="ecc"' not in node.metrics


def test_hanging_program_is_a_finding_within_the_time_limit(node: Node) -> None:
    node.config["timeout_s"] = 0.5
    node.program("nvidia-smi", "#!/bin/sh\nexec sleep 60\n")
    before = os.times().elapsed
    node.run()
    assert os.times().elapsed - before < 10
    assert node.found["gpu_count"] == ("drain", "nvidia-smi: nvidia-smi did not end within 0.5 s")
    assert node.show()["healthy"] is False


def test_program_hanging_in_the_kernel_is_not_started_again(node: Node) -> None:
    node.run()
    state = node.root / "var/lib/gpufleet/health/state.json"
    state.write_text(state.read_text().replace('"hung": {}', f'"hung": {{"nvidia-smi": {os.getpid()}}}'))
    node.program("nvidia-smi", f"#!/bin/sh\ntouch {node.bin}/started\n")
    node.run()
    assert not (node.bin / "started").exists()
    assert "hangs in the kernel since an earlier run" in node.found["gpu_count"][1]
