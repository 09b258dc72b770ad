#!/usr/bin/python
"""Ansible module: hardware and operating system of a host, read only and without root."""

from __future__ import annotations

import ctypes
import os
import struct
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
---
module: preflight_measure
short_description: Measures a host and changes nothing
description:
  - Reads /proc, /sys and /etc. Works the same in check mode.
  - A failed probe does not end the module; C(errors) has its reason.
options:
  min_free_gib:
    description: File systems to measure, by path, and the GiB that must be free on each.
    type: dict
    required: true
  gpu_vendor:
    description: PCI vendor of the GPUs, four hexadecimal digits.
    type: str
    default: "10de"
  nic_vendor:
    description: PCI vendor of the fabric's adapters, four hexadecimal digits.
    type: str
    default: "15b3"
author:
  - gpufleet
"""

EXAMPLES = r"""
- name: Measure the host
  gpufleet.rack.preflight_measure:
    min_free_gib: { /: 20, /var: 10 }
  register: measured
"""

RETURN = r"""
preflight_measurements:
  description: Measurements by name; C(errors) has the reason of missing ones.
  returned: always
  type: dict
"""

SCHEMA = 2
# PCI classes: 0x0300 VGA and 0x0302 3D controllers; 0x0200 Ethernet and 0x0207 InfiniBand.
GPU_CLASSES = ("0x0300", "0x0302")
NIC_CLASSES = ("0x0200", "0x0207")
# adjtimex(2): set while the kernel clock is not synchronized.
STA_UNSYNC = 0x0040
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def text(path):
    """The text of a small kernel file, without the newline."""
    return path.read_text(encoding="utf-8", errors="replace").strip()


def operating_system(root):
    """Distribution, version, and the version of DGX OS if it is installed."""
    found = assignments(root / "etc/os-release")
    dgx = root / "etc/dgx-release"
    version = assignments(dgx).get("DGX_SWBUILD_VERSION", "unknown") if dgx.exists() else None
    return {
        "id": found["ID"],
        "version": found.get("VERSION_ID", ""),
        "name": found.get("PRETTY_NAME", found["ID"]),
        "dgx_os": version,
    }


def assignments(path):
    """`KEY=value` lines, quotes removed."""
    pairs = (
        line.split("=", 1) for line in text(path).splitlines() if "=" in line and not line.startswith("#")
    )
    return {key.strip(): value.strip().strip("\"'") for key, value in pairs}


def kernel(_root):
    """Release and architecture of the running kernel."""
    name = os.uname()
    return {"release": name.release, "architecture": name.machine}


def cpu(root):
    """Number of online logical processors, and sockets."""
    folder = root / "sys/devices/system/cpu"
    packages = {text(path) for path in folder.glob("cpu[0-9]*/topology/physical_package_id")}
    return {"logical": count_ranges(text(folder / "online")), "sockets": len(packages) or None}


def count_ranges(ranges):
    """Number of elements in `0-3,8`."""
    ends = [part.split("-") for part in ranges.split(",") if part]
    return sum(int(end[-1]) - int(end[0]) + 1 for end in ends)


def meminfo(root):
    """Parse /proc/meminfo; sizes in KiB, counts unchanged."""
    lines = (line.split(":", 1) for line in text(root / "proc/meminfo").splitlines() if ":" in line)
    return {name: int(value.split()[0]) for name, value in lines}


def memory(root):
    """Memory available to the kernel."""
    return {"total_kib": meminfo(root)["MemTotal"]}


def hugepages(root):
    """Reserved huge pages, their size, and whether transparent ones are enabled."""
    found = meminfo(root)
    transparent = text(root / "sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "total": found["HugePages_Total"],
        "size_kib": found["Hugepagesize"],
        "transparent": transparent.partition("[")[2].partition("]")[0],
    }


def pci(root, vendor, classes):
    """Physical functions of one vendor and some classes, ordered by address."""
    folder = root / "sys/bus/pci/devices"
    if not folder.is_dir():
        raise FileNotFoundError(str(folder) + " does not exist: the kernel has no PCI bus")
    return [
        pci_function(device)
        for device in sorted(folder.iterdir())
        if text(device / "vendor") == "0x" + vendor.lower()
        and text(device / "class")[:6] in classes
        and not (device / "physfn").exists()
    ]


def pci_function(device):
    """One PCI function: address, IDs, link, and IOMMU mode."""
    return {
        "address": device.name,
        "device": text(device / "device").replace("0x", ""),
        "class": text(device / "class")[:6],
        "link_width": number(device / "current_link_width"),
        "max_link_width": number(device / "max_link_width"),
        "numa_node": number(device / "numa_node"),
        "iommu": text(device / "iommu_group/type") if (device / "iommu_group/type").exists() else None,
    }


def number(path):
    """The number in a file, None if it does not exist or has no number."""
    try:
        return int(text(path))
    except (OSError, ValueError):
        return None


def iommu(root):
    """Number of active IOMMUs, and their kernel arguments."""
    arguments = text(root / "proc/cmdline").split()
    units = root / "sys/class/iommu"
    return {
        "units": len(list(units.iterdir())) if units.is_dir() else 0,
        "arguments": [item for item in arguments if item.split("=")[0].endswith("iommu")],
    }


def secure_boot(root):
    """Whether the firmware is EFI, and whether Secure Boot is enabled."""
    if not (root / "sys/firmware/efi").is_dir():
        return {"efi": False, "enabled": False}
    variable = root / SECURE_BOOT
    if not variable.exists():
        if not any((root / "sys/firmware/efi/efivars").glob("*")):
            raise FileNotFoundError("the firmware's variables are not mounted (efivarfs)")
        return {"efi": True, "enabled": False}
    # Four bytes of attributes, then the value.
    return {"efi": True, "enabled": variable.read_bytes()[4] == 1}


def clock(_root):
    """Whether the kernel clock is synchronized (adjtimex(2)), its maximum error, and the time."""
    # struct timex on 64-bit Linux; with modes 0 the call only reads.
    buffer = ctypes.create_string_buffer(512)
    if ctypes.CDLL(None, use_errno=True).adjtimex(buffer) < 0:
        raise OSError(ctypes.get_errno(), "adjtimex: " + os.strerror(ctypes.get_errno()))
    max_error, _, status = struct.unpack_from("=qqi", buffer.raw, 24)
    return {"synchronized": not status & STA_UNSYNC, "max_error_us": max_error, "time_s": time.time()}


def disks(root, min_free_gib):
    """Size and free space of file systems by path, in bytes and inodes, and what must be free."""
    return {
        path: {**disk(root / path.lstrip("/")), "needed_gib": float(gib)}
        for path, gib in min_free_gib.items()
    }


def disk(path):
    """One file system; free is what is available without root."""
    found = os.statvfs(path)
    return {
        "total_bytes": found.f_blocks * found.f_frsize,
        "free_bytes": found.f_bavail * found.f_frsize,
        "free_inodes": found.f_favail if found.f_files else None,
    }


def measure(root, min_free_gib, gpu_vendor, nic_vendor):
    """All measurements; `errors` has the reason of missing ones."""
    probes = {
        "os": operating_system,
        "kernel": kernel,
        "cpu": cpu,
        "memory": memory,
        "hugepages": hugepages,
        "gpus": lambda where: pci(where, gpu_vendor, GPU_CLASSES),
        "nics": lambda where: pci(where, nic_vendor, NIC_CLASSES),
        "iommu": iommu,
        "secure_boot": secure_boot,
        "clock": clock,
        "disks": lambda where: disks(where, min_free_gib),
    }
    values, errors = {}, {}
    for name, probe in probes.items():
        try:
            values[name] = probe(root)
        except (OSError, ValueError, KeyError, IndexError, AttributeError) as error:
            errors[name] = f"{type(error).__name__}: {error}"
    return {"schema": SCHEMA, **values, "errors": errors}


def main():
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "min_free_gib": {"type": "dict", "required": True},
            "gpu_vendor": {"type": "str", "default": "10de"},
            "nic_vendor": {"type": "str", "default": "15b3"},
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, preflight_measurements=measure(Path("/"), **module.params))


if __name__ == "__main__":
    main()
