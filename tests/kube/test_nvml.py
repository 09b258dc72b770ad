"""The kit's NVML on the hardware of a host, called as NVIDIA's programs call it."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable
from ctypes import byref
from pathlib import Path
from typing import Any

import pytest

from tests.captures import H100, load_capture
from tests.kube.cluster_programs import nvml_header
from tests.rack.hardware import Hardware

SOURCE = Path("tests/rack/kit/cluster/nvml.c")
DRIVER = "580.159.03"
# Values of nvmlReturn_t.
NOT_SUPPORTED, NOT_FOUND, DRIVER_NOT_LOADED, TIMEOUT, GPU_IS_LOST, MISMATCH = 3, 6, 9, 10, 15, 18
XID_CRITICAL_ERROR = 8


class Event(ctypes.Structure):
    """nvmlEventData_t."""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


@pytest.fixture
def hardware(tmp_path: Path) -> Hardware:
    """A host with eight GPUs, whose driver is loaded."""
    site = {"system": "dgx-h100", "hosts": [{"name": "dgx01", "role": "gpu"}], "fabric": "infiniband"}
    command = [sys.executable, "tests/rack/kit/describe.py", str(tmp_path / "hosts")]
    subprocess.run(command, input=json.dumps(site), text=True, check=True, timeout=300)
    load(tmp_path, DRIVER)
    return Hardware(tmp_path / "hosts/dgx01")


def load(folder: Path, version: str) -> None:
    """Have the kernel load a driver."""
    (folder / "kernel/module/nvidia").mkdir(parents=True, exist_ok=True)
    (folder / "kernel/module/nvidia/version").write_text(f"{version}\n")


@pytest.fixture
def nvml(tmp_path: Path, hardware: Hardware) -> ctypes.CDLL:
    flags = [f'-DDRIVER="{DRIVER}"', "-DCUDA=13000", f'-DHARDWARE="{hardware.folder}/gpus"']
    flags += [f'-DKERNEL="{tmp_path}/kernel"', f"-I{nvml_header()}", "-Wall", "-Werror"]
    built = tmp_path / "libnvidia-ml.so"
    subprocess.run(["gcc", "-shared", "-fPIC", *flags, "-o", built, SOURCE], check=True, timeout=300)
    return ctypes.CDLL(str(built))


def text(call: Callable[..., int], *arguments: Any) -> str:
    """The text that a function writes."""
    buffer = ctypes.create_string_buffer(96)
    assert call(*arguments, buffer, 96) == 0
    return buffer.value.decode()


def gpu(nvml: ctypes.CDLL, index: int) -> ctypes.c_void_p:
    device = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(index, byref(device)) == 0
    return device


def test_gpus_are_those_of_the_host(nvml: ctypes.CDLL, hardware: Hardware) -> None:
    assert nvml.nvmlInit_v2() == 0
    count, minor = ctypes.c_uint(), ctypes.c_uint()
    assert nvml.nvmlDeviceGetCount_v2(byref(count)) == 0
    described = hardware.state()["gpus"]
    assert count.value == len(described) == 8
    assert text(nvml.nvmlSystemGetDriverVersion) == DRIVER
    for index, known in enumerate(described):
        device = gpu(nvml, index)
        assert text(nvml.nvmlDeviceGetUUID, device) == known["uuid"]
        assert text(nvml.nvmlDeviceGetName, device) == known["name"]
        assert nvml.nvmlDeviceGetMinorNumber(device, byref(minor)) == 0
        assert minor.value == known["minor"]
    other = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByUUID(b"GPU-none", byref(other)) == NOT_FOUND
    level = ctypes.c_uint()
    for second, wanted in ((1, 40), (7, 50)):  # NVML_TOPOLOGY_NODE, NVML_TOPOLOGY_SYSTEM
        pair = gpu(nvml, 0), gpu(nvml, second)
        assert nvml.nvmlDeviceGetTopologyCommonAncestor(*pair, byref(level)) == 0
        assert level.value == wanted


def test_lost_gpu_answers_nothing_and_its_xid_is_an_event(nvml: ctypes.CDLL, hardware: Hardware) -> None:
    assert nvml.nvmlInit_v2() == 0
    events, event, device = ctypes.c_void_p(), Event(), gpu(nvml, 2)
    assert nvml.nvmlEventSetCreate(byref(events)) == 0
    assert nvml.nvmlDeviceRegisterEvents(device, ctypes.c_ulonglong(XID_CRITICAL_ERROR), events) == 0
    assert nvml.nvmlEventSetWait_v2(events, byref(event), 1) == TIMEOUT
    hardware.xid(79, 2)
    assert nvml.nvmlEventSetWait_v2(events, byref(event), 1) == 0
    assert (event.device, event.type, event.data) == (device.value, XID_CRITICAL_ERROR, 79)
    assert nvml.nvmlEventSetWait_v2(events, byref(event), 1) == TIMEOUT
    buffer = ctypes.create_string_buffer(96)
    assert nvml.nvmlDeviceGetUUID(device, buffer, 96) == GPU_IS_LOST
    assert text(nvml.nvmlDeviceGetUUID, gpu(nvml, 3)) == hardware.state()["gpus"][3]["uuid"]


def test_file_that_containers_have_mounted_is_changed_in_place(hardware: Hardware) -> None:
    before = (hardware.folder / "gpus").stat()
    hardware.remove_gpu(5)
    after = (hardware.folder / "gpus").stat()
    assert (before.st_ino, before.st_size) == (after.st_ino, after.st_size)
    assert (hardware.folder / "gpus").read_text().count("gpu ") == 7


def test_driver_of_another_version_or_none_is_an_error_of_initialization(
    nvml: ctypes.CDLL, tmp_path: Path
) -> None:
    load(tmp_path, "580.126.20")
    assert nvml.nvmlInit_v2() == MISMATCH
    (tmp_path / "kernel/module/nvidia/version").unlink()
    assert nvml.nvmlInit_v2() == DRIVER_NOT_LOADED


def test_a_gpu_answers_as_a_real_h100(nvml: ctypes.CDLL, hardware: Hardware) -> None:
    real = load_capture(f"{H100}/nvml.json")
    assert nvml.nvmlInit_v2() == 0
    device, other = gpu(nvml, 0), gpu(nvml, 1)
    memory = (ctypes.c_ulonglong * 3)()
    assert nvml.nvmlDeviceGetMemoryInfo(device, memory) == 0
    assert list(memory) == [real["MemoryInfo"][name] for name in ("total", "free", "used")]
    current, pending = ctypes.c_uint(7), ctypes.c_uint(7)
    assert nvml.nvmlDeviceGetMigMode(device, byref(current), byref(pending)) == 0
    assert [current.value, pending.value] == real["MigMode"]
    level = ctypes.c_uint()
    assert "Not Supported" in real["TopologyCommonAncestor_self"]
    assert nvml.nvmlDeviceGetTopologyCommonAncestor(device, device, byref(level)) == NOT_SUPPORTED
    assert nvml.nvmlDeviceGetTopologyCommonAncestor(device, other, byref(level)) == 0
    codes = [nvml.nvmlDeviceGetHandleByIndex_v2(99, byref(ctypes.c_void_p()))]
    assert real["HandleByIndex_beyond"].endswith("Invalid Argument") and codes == [2]
