"""A DGX H100 as the role's module reports it, to be changed by each test in one place."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from gpufleet.catalog.pci import device_ids
from gpufleet.racks.preflight import Expectations

GIB = 1024**3


def function(address: str, device: str, kind: str) -> dict[str, Any]:
    return {
        "address": address,
        "device": device,
        "class": kind,
        "link_width": 16,
        "max_link_width": 16,
        "numa_node": 0,
        "iommu": None,
    }


HEALTHY: dict[str, Any] = {
    "schema": 2,
    "os": {"id": "ubuntu", "version": "22.04", "name": "Ubuntu 22.04.5 LTS", "dgx_os": "6.3.2"},
    "kernel": {"release": "5.15.0-1063-nvidia", "architecture": "x86_64"},
    "cpu": {"logical": 224, "sockets": 2},
    "memory": {"total_kib": 2113 * 1024 * 1024 * 10 // 11},
    "hugepages": {"total": 0, "size_kib": 2048, "transparent": "madvise"},
    "gpus": [function(f"0000:{bus:02x}:00.0", "2330", "0x0302") for bus in range(8)],
    "nics": [function(f"0000:{bus:02x}:00.0", "1021", "0x0207") for bus in range(16, 26)],
    "iommu": {"units": 0, "arguments": []},
    "secure_boot": {"efi": True, "enabled": False},
    "clock": {"synchronized": True, "max_error_us": 400},
    "disks": {
        path: {
            "total_bytes": 1800 * GIB,
            "free_bytes": 900 * GIB,
            "free_inodes": 10**7,
            "needed_gib": needed,
        }
        for path, needed in (("/", 20.0), ("/var", 10.0), ("/tmp", 1.0))
    },
    "errors": {},
}


@pytest.fixture
def healthy() -> Callable[..., dict[str, Any]]:
    """A healthy host with whole measurements replaced."""

    def make(**changes: Any) -> dict[str, Any]:
        return copy.deepcopy(HEALTHY) | changes

    return make


@pytest.fixture
def expected() -> Callable[..., Expectations]:
    def make(**changes: Any) -> Expectations:
        values: dict[str, Any] = {
            "peers": "dc1 dgx-h100",
            "gpu_node": True,
            "gpu": "H100",
            "gpus": 8,
            "gpu_device_ids": device_ids("H100", "sxm"),
            "nics": 8,
        }
        return Expectations(**values | changes)

    return make
