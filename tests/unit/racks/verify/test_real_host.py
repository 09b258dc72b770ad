"""`gpufleet verify` of GPU roles on what a real H100 and H200 printed, driver 580."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.racks.verify import gpu
from gpufleet.racks.verify.measurements import RoleMeasurements
from tests.captures import H100, H200, load_capture, read_capture

BOTH = pytest.mark.parametrize("name", [H100, H200])
DRIVER = "580.159.04"


def printed(text: str) -> dict[str, Any]:
    return {"rc": 0, "stdout": text, "stderr": ""}


@BOTH
def test_driver_of_a_real_host_passes(name: str) -> None:
    found = {
        "nvidia_driver_gpus": printed(read_capture(f"{name}/query-nvidia_driver.csv")),
        "nvidia_driver_loaded": printed(
            load_capture(f"{name}/host_files.json")["/sys/module/nvidia/version"]
        ),
    }
    values = {"nvidia_driver_version": DRIVER, "nvidia_driver_gpus": 1, "nvidia_driver_open_modules": True}
    results = {
        each.check: each for each in gpu.nvidia_driver(RoleMeasurements("h", "nvidia_driver", values, found))
    }
    assert (results["gpus"].status, results["gpus"].measured) == ("pass", f"1 GPUs, driver {DRIVER}")
    assert results["loaded"].status == "pass"


@BOTH
def test_a_gpu_without_a_fabric_is_not_missing_in_it(name: str) -> None:
    found = {"fabric_manager_state": printed(read_capture(f"{name}/query-fabric_manager.csv"))}
    values = {"fabric_manager_version": DRIVER}
    results = gpu.fabric_manager(RoleMeasurements("h", "fabric_manager", values, found))
    (fabric,) = (each for each in results if each.check == "fabric")
    assert (fabric.status, fabric.measured) == ("pass", "1 of 1 GPUs")


@BOTH
def test_gpus_of_a_real_specification_are_counted_once(name: str) -> None:
    # The real list has the GPU by its index and by its UUID, and "all".
    found = {
        "container_toolkit_version": printed("NVIDIA Container Toolkit CLI version 1.19.1\n"),
        "container_toolkit_devices": printed(read_capture(f"{name}/cdi-list.txt")),
    }
    values = {"container_toolkit_version": "1.19.1-1", "nvidia_driver_gpus": 1}
    results = gpu.container_toolkit(RoleMeasurements("h", "container_toolkit", values, found))
    assert [(each.check, each.status, each.measured) for each in results] == [
        ("version", "pass", "1.19.1"),
        ("cdi", "pass", "1 GPUs"),
    ]
