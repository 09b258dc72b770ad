"""What logs and tools report of adapters: each line is a finding of the right adapter, or none."""

from __future__ import annotations

import pytest
from health.adapter_log import lost_carriers

from tests.captures import read_capture

from .conftest import Node

BUS = "0000:5c:00.0"
# As pcie_print_link_status of the kernel prints it.
NARROW = (
    "63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0000:00:01.0 (capable of "
    "252.048 Gb/s with 16.0 GT/s PCIe x16 link)"
)
SLOW = NARROW.replace("x8 link", "x16 link")


def logged(node: Node, *lines: str, bus: str = BUS) -> Node:
    """The adapter mlx5_3 at BUS, and lines of the driver of the one at `bus` in the log."""
    function = node.root / "sys/devices/pci0000:5b" / BUS
    function.parent.mkdir(parents=True, exist_ok=True)
    place = node.root / "sys/class/infiniband/mlx5_3/device"
    if not place.is_symlink():
        place.rename(function)
        place.symlink_to(function)
    node.log += [f"[    4.000000] mlx5_core {bus}: {line}" for line in lines]
    node.run()
    return node


def test_an_adapter_whose_link_above_is_narrow_drains_where_the_port_needs_more(node: Node) -> None:
    reported = "mlx5_3 63 Gb/s of PCIe bandwidth for 400, limited by an x8 link at 0000:00:01.0"
    assert logged(node, NARROW).found == {"pcie_width": ("drain", reported)}


@pytest.mark.parametrize(
    ("line", "bus", "gbps"), [(NARROW, "0000:01:00.0", 400), (NARROW, BUS, 40), (SLOW, BUS, 400)]
)
def test_other_adapters_ports_that_need_less_and_slower_slots_are_no_fault(
    node: Node, line: str, bus: str, gbps: int
) -> None:
    node.config["link_gbps"] = gbps
    assert logged(node, line, bus=bus).found == {}


def test_a_link_that_sysfs_shows_as_narrow_is_one_finding(node: Node) -> None:
    node.port(3, **{"../../device/current_link_width": "8"})
    assert logged(node, NARROW).found == {"pcie_width": ("drain", "mlx5_3 PCIe link x8 of x16")}


def flapping(node: Node, interface: str) -> Node:
    node.printed["journal"] = read_capture("kernel/syslog_ib-link-flap.log").replace("ib6", interface)
    node.file("sys/class/infiniband/mlx5_6/device/net/ib6/dev_port", "0")
    node.run()
    return node


def test_a_real_carrier_lost_six_times_drains_where_it_is_the_fabric_s(node: Node) -> None:
    assert flapping(node, "ib6").found == {"port_flaps": ("drain", "mlx5_6 lost its carrier 6 times in 24 h")}


def test_a_real_carrier_of_another_interface_is_advice(node: Node) -> None:
    assert flapping(node, "eno1").found == {"port_flaps": ("advise", "eno1 lost its carrier 6 times in 24 h")}


def test_real_logs_without_a_flap_have_none() -> None:
    assert lost_carriers(read_capture("kernel/syslog_no-flap.log")) == {}
    assert lost_carriers(read_capture("kernel/journald_azure_gpu-vm.log")) == {}


def test_a_real_ibpanic_is_advice_and_names_the_device(node: Node) -> None:
    node.printed["ibstat.out"] = read_capture("infiniband/ibstat_a100_ibpanic_rc255.txt")
    node.answer("ibstat.code", "255")
    node.run()
    reported = "ibstat fails: main: stat of IB device 'mlx5_8' failed: No such file or directory"
    assert node.found == {"ibstat": ("advise", reported)}
    node.run("prolog")
    assert node.found == {}, "jobs do not wait for it"


def test_without_ibstat_or_a_journal_nothing_is_reported(node: Node) -> None:
    for name in ("ibstat", "journalctl"):
        node.program(name, "#!/bin/sh\nexit 127\n")
    node.run()
    assert node.found == {}
