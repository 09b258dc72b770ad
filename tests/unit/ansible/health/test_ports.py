"""Ports: which of them are the fabric's, who is blamed for a missing one, and counters that end or repeat."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gpufleet.catalog import load_catalog
from tests.captures import read_capture

from .conftest import Node

CATALOG = load_catalog()
H100 = list(CATALOG.system("dgx-h100").rails)
DOWN = {"state": "1: DOWN", "phys_state": "2: Polling"}
UNUSED = {"state": "1: DOWN", "phys_state": "3: Disabled"}


def device(
    node: Node, name: str, *, kind: str = "MT4129", vpd: bytes = b"", port: str = "1", **values: str
) -> None:
    """An adapter of that name with one port up at 400 Gb/s; `values` are files of the port."""
    folder = f"sys/class/infiniband/{name}"
    there = {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "400 Gb/sec (4X NDR)",
        "link_layer": "InfiniBand",
        "counters/link_downed": "0",
    } | values
    for file, text in there.items():
        node.file(f"{folder}/ports/{port}/{file}", text)
    node.file(f"{folder}/hca_type", kind)
    node.file(f"{folder}/device/current_link_width", "16")
    node.file(f"{folder}/device/max_link_width", "16")
    if vpd:
        (node.root / folder / "device/vpd").write_bytes(vpd)


def bare(node: Node) -> Node:
    """The node without the adapters that it has otherwise."""

    shutil.rmtree(node.root / "sys/class/infiniband")
    (node.root / "sys/class/infiniband").mkdir()
    return node


@pytest.fixture
def dgx(node: Node) -> Node:
    """A DGX H100 as in ibstat_h100_all-active: eight rails, two Ethernet adapters with two ports each."""
    bare(node)
    for name in H100:
        device(node, name)
    for name, changes in (("mlx5_1", {}), ("mlx5_2", UNUSED), ("mlx5_7", {}), ("mlx5_8", UNUSED)):
        device(node, name, kind="MT4125", link_layer="Ethernet", rate="100 Gb/sec (4X EDR)", **changes)
    return node


def b300(node: Node, *, up: bool = True) -> Node:
    """An HGX B300: four bridges to the NVSwitches, and eight ConnectX-8 at 800 Gb/s."""
    bare(node)
    node.config |= {"adapters": -1, "link_gbps": 800, "gpu": "B300"}
    for number in (2, 3, 4, 5):
        device(node, f"mlx5_{number}", rate="100 Gb/sec (4X EDR)", vpd=b"V3\x0bSMDL=SW_MNG")
    for number in (0, 1, 6, 7, 8, 9, 10, 11):
        changes = {} if up else UNUSED | {"rate": "10 Gb/sec (4X SDR)"}
        device(node, f"mlx5_{number}", kind="MT4131", **{"rate": "800 Gb/sec (4X XDR)"} | changes)
    return node


def findings(node: Node, check: str) -> list[tuple[str, str]]:
    """Subject and message of the last run's findings of one check."""
    node.run("show")
    node.run()

    text = (node.root / "var/lib/gpufleet/health/findings.json").read_text()
    return [
        (item["subject"], item["message"]) for item in json.loads(text)["findings"] if item["check"] == check
    ]


@pytest.mark.parametrize("adapters", [8, -1])
@pytest.mark.parametrize("devices", [H100, []])
def test_a_healthy_dgx_is_healthy_whatever_is_known_of_it(
    dgx: Node, adapters: int, devices: list[str]
) -> None:
    dgx.config |= {"adapters": adapters, "devices": devices}
    dgx.run()
    assert dgx.found == {}


def test_a_dead_rail_is_a_fault_though_a_storage_port_is_as_good(dgx: Node) -> None:
    dgx.config["devices"] = H100
    device(dgx, "mlx5_1")
    device(dgx, "mlx5_9", **DOWN)
    dgx.run()
    assert dgx.found == {"port": ("drain", "mlx5_9 is DOWN (Polling)")}


@pytest.mark.parametrize("adapters", [8, -1])
def test_one_dead_port_blames_no_healthy_neighbour_of_another_kind(dgx: Node, adapters: int) -> None:
    dgx.config["adapters"] = adapters
    device(dgx, "mlx5_9", **DOWN)
    assert findings(dgx, "port") == [("mlx5_9", "is DOWN (Polling)")]


def test_a_port_that_is_down_is_blamed_before_one_that_is_slower(dgx: Node) -> None:
    device(dgx, "mlx5_1", rate="200 Gb/sec (4X HDR)")
    device(dgx, "mlx5_9", **DOWN)
    assert findings(dgx, "port") == [("mlx5_9", "is DOWN (Polling)")]


def test_where_none_can_be_blamed_the_count_is_reported(dgx: Node) -> None:
    device(dgx, "mlx5_9", link_layer="Ethernet")
    assert findings(dgx, "port") == [("", "7 of 8 ports are good")]


def test_a_healthy_b300_is_healthy_without_adapters_in_the_catalog(node: Node) -> None:
    b300(node).run()
    assert node.found == {}


def test_bridges_that_cannot_be_read_are_known_by_name(node: Node) -> None:
    b300(node)
    for number in (2, 3, 4, 5):
        (node.root / f"sys/class/infiniband/mlx5_{number}/device/vpd").unlink()
    node.config["bridges"] = list(CATALOG.system("dgx-b300").bridges)
    node.run()
    assert node.found == {}


def test_four_bridges_never_stand_in_for_four_dead_rails(node: Node) -> None:
    b300(node)
    node.config |= {"adapters": 8, "link_gbps": 100}
    for number in (6, 7, 8, 9):
        device(node, f"mlx5_{number}", kind="MT4131", **DOWN)
    assert [subject for subject, _ in findings(node, "port")] == [f"mlx5_{number}" for number in (6, 7, 8, 9)]


def test_a_b300_without_any_good_port_is_a_fault(node: Node) -> None:
    b300(node, up=False)
    assert findings(node, "port") == [("", "no InfiniBand port is up at 800 Gb/s")]


def test_a_bridge_that_is_down_is_reported(node: Node) -> None:
    b300(node)
    device(node, "mlx5_3", vpd=b"SMDL=SW_MNG", **DOWN)
    node.run()
    reported = "mlx5_3 which manages an NVSwitch, is DOWN (Polling)"
    assert node.found == {"nvswitch_bridge": ("advise", reported)}


def test_a_healthy_roce_node_is_healthy_without_adapters_in_the_catalog(node: Node) -> None:
    bare(node)
    node.config |= {"adapters": -1, "fabric_kind": "roce"}
    for number in range(8):
        device(node, f"mlx5_{number}", link_layer="Ethernet")
    device(node, "mlx5_8", kind="MT4125", link_layer="Ethernet", rate="100 Gb/sec (4X EDR)")
    device(node, "mlx5_9", link_layer="Ethernet", **UNUSED)
    node.run()
    assert node.found == {}
    device(node, "mlx5_2", link_layer="Ethernet", **DOWN)
    assert findings(node, "port") == [("mlx5_2", "is DOWN (Polling)")], "it was good before"


def test_a_slower_port_of_the_good_ones_kind_is_advice_where_nobody_named_the_rails(node: Node) -> None:
    node.config["adapters"] = -1
    node.port(8, link_layer="Ethernet", rate="25 Gb/sec (1X EDR)")
    node.run()
    assert node.found == {}
    node.port(9, rate="200 Gb/sec (4X HDR)")
    node.run()
    assert node.found["port"] == ("advise", "mlx5_9 at 200 Gb/s instead of 400")


def test_a_device_without_a_port_is_a_fault_of_a_rail_and_advice_of_another(dgx: Node) -> None:
    dgx.config["devices"] = H100

    for name in ("mlx5_9", "mlx5_2"):
        shutil.rmtree(dgx.root / f"sys/class/infiniband/{name}/ports")
    dgx.run()
    assert dgx.found == {
        "port": ("drain", "mlx5_9 is listed by the kernel without a port"),
        "adapter": ("advise", "mlx5_2 is listed by the kernel without a port"),
    }


def test_two_ports_of_a_device_are_two_ports(node: Node) -> None:
    bare(node)
    node.config |= {"adapters": 2}
    for port in ("1", "2"):
        device(node, "mlx5_0", port=port)
    node.run()
    device(node, "mlx5_0", port="1", **{"counters/link_downed": "5"})
    node.run()
    assert node.found == {"port_flaps": ("drain", "mlx5_0/1 went down 5 times in 24 h")}
    state = (node.root / "var/lib/gpufleet/health/state.json").read_text()
    assert '"mlx5_0/1": {' in state and '"mlx5_0/2": {' in state
    node.config["devices"] = ["mlx5_0:2"]
    device(node, "mlx5_0", port="2", **DOWN)
    assert findings(node, "port") == [("mlx5_0:2", "is DOWN (Polling)")]


def test_a_counter_at_its_ceiling_is_reported_and_the_interface_s_own_counts_on(node: Node) -> None:
    carrier = "sys/class/infiniband/mlx5_3/device/net/ib3/carrier_down_count"
    node.port(3, **{"counters/link_downed": "255"})
    node.file(carrier, "300")
    node.run()
    assert node.found["port_counters"] == (
        "advise",
        "mlx5_3 link_downed stands at its ceiling of 255 and counts no more",
    )
    assert "port_flaps" not in node.found
    node.file(carrier, "306")
    node.run()
    assert node.found["port_flaps"] == ("drain", "mlx5_3 went down 6 times in 24 h")


def test_a_link_that_both_counters_saw_go_down_went_down_once(node: Node) -> None:
    carrier = "sys/class/infiniband/mlx5_3/device/net/ib3/carrier_down_count"
    node.file(carrier, "0")
    node.run()
    node.file(carrier, "4")
    node.port(3, **{"counters/link_downed": "4"})
    node.run()
    assert "port_flaps" not in node.found


def test_counters_of_the_hardware_are_read_and_requests_are_no_errors(node: Node) -> None:
    node.config["port_errors_per_hour"] = {"out_of_sequence": 10}
    node.port(3, **{"hw_counters/out_of_sequence": "0", "hw_counters/rx_read_requests": "0"})
    node.run()
    node.port(3, **{"hw_counters/out_of_sequence": "1000", "hw_counters/rx_read_requests": "9"})
    node.run()
    assert node.found["port_errors"][1].startswith("mlx5_3 out_of_sequence: ")
    assert 'counter="out_of_sequence"' in node.metrics
    assert "rx_read_requests" not in node.metrics and "lifespan" not in node.metrics


def above(node: Node, number: int, width: str) -> None:
    """Put an adapter below a PCIe switch whose own link has `width` lanes of 16."""
    switch = node.root / "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0"
    function = switch / "0000:18:00.0"
    for place, lanes in ((switch.parent, width), (switch, width), (function, "16")):
        place.mkdir(parents=True, exist_ok=True)
        (place / "current_link_width").write_text(f"{lanes}\n")
        (place / "max_link_width").write_text("16\n")
    link = node.root / f"sys/class/infiniband/mlx5_{number}/device"

    shutil.rmtree(link)
    link.symlink_to(function)


def test_a_link_above_the_adapter_that_is_too_narrow_is_found_once(node: Node) -> None:
    above(node, 1, "8")
    assert findings(node, "pcie_width") == [("mlx5_1", "PCIe link x8 of x16 above it, at 0000:16:00.0")]


def test_a_link_above_the_adapter_that_is_wide_enough_is_no_fault(node: Node) -> None:
    above(node, 1, "16")
    node.run()
    assert node.found == {}


def unpack(text: str, folder: Path) -> None:
    """Write the files of a ttar archive."""
    for part in text.split("\nPath: ")[1:]:
        head, _, body = part.partition("\n# ttar")[0].partition("\nLines: ")
        place = folder / head.strip()
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(body.partition("\n")[2] + "\n")


@pytest.fixture
def real(node: Node) -> Node:
    """/sys/class/infiniband of a real H100 server: eight rails at 400 Gb/s, and an Ethernet bond of 200."""
    text = read_capture("infiniband/sysfs_class-infiniband_h100.ttar")
    unpack("\n" + text.partition("\n")[2], bare(node).root / "sys/class/infiniband")
    return node


@pytest.mark.parametrize(
    "changes", [{}, {"adapters": -1}, {"devices": ["mlx5_0", "mlx5_1", "mlx5_4", "mlx5_9"]}]
)
def test_a_real_healthy_server_is_healthy_and_its_full_counter_is_reported(
    real: Node, changes: dict[str, Any]
) -> None:
    real.config |= changes
    real.run()
    reported = "mlx5_1 link_downed stands at its ceiling of 255 and counts no more"
    assert real.found == {"port_counters": ("advise", reported)}


def test_a_dead_port_of_a_real_server_is_blamed_alone(real: Node) -> None:
    real.file("sys/class/infiniband/mlx5_5/ports/1/state", "1: DOWN")
    real.file("sys/class/infiniband/mlx5_5/ports/1/phys_state", "2: Polling")
    assert findings(real, "port") == [("mlx5_5", "is DOWN (Polling)")]
