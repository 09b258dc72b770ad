"""The checks of one host: each takes one measurement and says what it is worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from gpufleet.racks.preflight.expectations import SUPPORTED_SYSTEMS, Expectations
from gpufleet.racks.preflight.verdict import Status

GIB = 1024**3
MOST_CLOCK_OFFSET_S = 60.0
"""Munge's credentials live for 300 s by default (munge(1)): a clock that is further off than a fifth of
that is wrong and not just late. The share is our own choice."""

KIB_PER_GIB = 1024**2
# Firmware and kernel reserve a part: at least this share of the installed memory must be available.
_MEMORY_SHARE = 0.95


class Outcome(Struct, frozen=True):
    """What a check says of a host."""

    status: Status
    measured: str
    expected: str = ""
    message: str = ""
    remedy: str = ""


def check_os(found: Mapping[str, Any], _expected: Expectations) -> Outcome:
    """The distribution is one that the roles are written for."""
    name = f"{found['name']}, DGX OS {found['dgx_os']}" if found.get("dgx_os") else str(found["name"])
    supported = "; ".join(SUPPORTED_SYSTEMS.values())
    if (found["id"], found["version"]) in SUPPORTED_SYSTEMS:
        return Outcome("pass", name, supported)
    return Outcome(
        "fail", name, supported, f"{name} is not a supported system", f"install one of: {supported}"
    )


def check_kernel(found: Mapping[str, Any], _expected: Expectations) -> Outcome:
    """Show the kernel. Only differences between peers are evaluated."""
    return Outcome("pass", f"{found['release']} {found['architecture']}")


def check_cpu(found: Mapping[str, Any], expected: Expectations) -> Outcome:
    """The number of sockets with a processor, and of logical processors."""
    measured = f"{found['logical']}"
    if expected.cpu_sockets is not None and found.get("sockets") not in (None, expected.cpu_sockets):
        wanted = f"{expected.cpu_sockets} sockets"
        return Outcome(
            "fail",
            f"{measured} in {found['sockets']} sockets",
            wanted,
            f"processors in {found['sockets']} of {expected.cpu_sockets} sockets",
            "look for a failed socket (BMC log); a system of another type has another `system`",
        )
    if expected.cpus is None:
        return Outcome("not-judged", measured)
    if found["logical"] == expected.cpus:
        return Outcome("pass", measured, str(expected.cpus))
    return Outcome(
        "fail",
        measured,
        str(expected.cpus),
        f"{measured} logical processors instead of {expected.cpus}",
        "look for a failed socket and for SMT and sub-NUMA settings in the firmware",
    )


def check_memory(found: Mapping[str, Any], expected: Expectations) -> Outcome:
    """The installed memory, less what firmware and kernel keep."""
    gib = found["total_kib"] / KIB_PER_GIB
    measured = f"{gib:.0f} GiB"
    if expected.memory_gib is None:
        return Outcome("not-judged", measured)
    wanted = f"{expected.memory_gib:.0f} GiB"
    if gib >= expected.memory_gib * _MEMORY_SHARE:
        return Outcome("pass", measured, wanted)
    return Outcome(
        "fail",
        measured,
        wanted,
        f"{measured} of memory instead of {wanted}",
        "look for a failed DIMM (BMC log)",
    )


def check_gpus(found: Sequence[Mapping[str, Any]], expected: Expectations) -> Outcome:
    """The number of GPUs on the PCI bus, and that they are the system's."""
    measured, wanted = _gpu_names(found), f"{expected.gpus} {expected.gpu}"
    if expected.gpus is None:
        return Outcome("not-judged", measured)
    if len(found) != expected.gpus:
        return Outcome(
            "fail",
            measured,
            wanted,
            f"{len(found)} GPUs on the PCI bus instead of {expected.gpus}",
            "power-cycle the node; if one stays away, reseat or replace it (BMC log, Xid 79)",
        )
    strange = [item for item in found if item["device"] not in expected.gpu_device_ids]
    if strange and expected.gpu_device_ids:
        return Outcome(
            "fail",
            measured,
            wanted,
            f"{_gpu_names(strange)} is no {expected.gpu} of this system",
            "correct `system` of the site in the fleet file, or take the host out of it",
        )
    return Outcome("pass", measured, wanted)


def _gpu_names(found: Sequence[Mapping[str, Any]]) -> str:
    from gpufleet.catalog.pci import gpu_devices  # see expectations.py

    known = gpu_devices()
    names = Counter(
        known[item["device"]].gpu if item["device"] in known else f"unknown 10de:{item['device']}"
        for item in found
    )
    return ", ".join(f"{count} {name}" for name, count in names.items()) or "none"


def check_nics(found: Sequence[Mapping[str, Any]], expected: Expectations) -> Outcome:
    """At least as many fabric adapters as the system has for compute."""
    measured = str(len(found))
    if expected.nics is None:
        return Outcome("not-judged", measured)
    wanted = f"at least {expected.nics}"
    if len(found) >= expected.nics:
        return Outcome("pass", measured, wanted)
    return Outcome(
        "fail",
        measured,
        wanted,
        f"{measured} fabric adapters on the PCI bus, {wanted} expected",
        "reseat or replace the missing adapter, and see that its slot is on in the firmware",
    )


def check_links(found: Sequence[Mapping[str, Any]], _expected: Expectations) -> Outcome:
    """Every PCIe link has the width that both ends can do. (Its speed drops while idle, so is no sign.)"""
    narrow = [
        f"{item['address']} x{item['link_width']} of x{item['max_link_width']}"
        for item in found
        if item["link_width"] and item["max_link_width"] and item["link_width"] < item["max_link_width"]
    ]
    unknown = sum(1 for item in found if not item["link_width"] or not item["max_link_width"])
    if narrow:
        return Outcome(
            "fail",
            ", ".join(narrow),
            "full width",
            f"PCIe link narrower than both ends can do: {', '.join(narrow)}",
            "reseat the device; if it stays so, replace it or its riser",
        )
    if unknown:
        return Outcome(
            "fail",
            f"{unknown} unknown",
            "full width",
            f"the PCIe link width of {unknown} devices was not measured",
            "see why the kernel does not show it (dmesg, lspci -vv)",
        )
    return Outcome("pass", "full width" if found else "none", "full width")


def check_clock(found: Mapping[str, Any], _expected: Expectations) -> Outcome:
    """The kernel's clock is synchronized, and shows the time of the machine that runs gpufleet."""
    offset = float(found.get("offset_s") or 0.0)
    if abs(offset) >= MOST_CLOCK_OFFSET_S:
        return Outcome(
            "fail",
            f"{offset:+.0f} s",
            "the time of this machine",
            f"the clock is {abs(offset):.0f} s {'ahead' if offset > 0 else 'behind'}: munge refuses messages"
            " of hosts whose clocks differ",
            "set the clock (chronyc makestep), and see that it reaches its servers (chronyc sources)",
        )
    if found["synchronized"]:
        return Outcome("pass", "synchronized", "synchronized")
    return Outcome(
        "fail",
        "not synchronized",
        "synchronized",
        "the clock is not synchronized: munge and Slurm refuse messages of hosts whose clocks differ",
        "run chrony and check that it reaches its servers (chronyc sources)",
    )


def check_disks(found: Mapping[str, Mapping[str, Any]], _expected: Expectations) -> Outcome:
    """Room on every file system that installations write to (`preflight_min_free_gib` of the role)."""
    short, shown, needed = [], [], []
    for path, disk in found.items():
        free, gib = disk["free_bytes"] / GIB, disk["needed_gib"]
        shown.append(f"{path} {free:.0f} GiB")
        needed.append(f"{path} {gib:g} GiB")
        if free < gib:
            short.append(f"{path} has {free:.1f} GiB free, {gib:g} GiB are needed")
        if disk["free_inodes"] == 0:
            short.append(f"{path} has no inode left")
    measured, wanted = ", ".join(shown), ", ".join(needed)
    if not short:
        return Outcome("pass", measured, wanted)
    return Outcome("fail", measured, wanted, "; ".join(short), "free or add space before installing anything")


def check_secure_boot(found: Mapping[str, Any], _expected: Expectations) -> Outcome:
    """Secure Boot, when on, refuses kernel modules built on the host."""
    if not found["enabled"]:
        return Outcome("pass", "off" if found["efi"] else "off (no EFI)", "off")
    return Outcome(
        "warn",
        "on",
        "off",
        "Secure Boot is on: modules that are built on the host (DKMS) do not load unless they are signed",
        "enroll a key for them (mokutil), use the distribution's signed modules, or turn it off",
    )


def check_iommu(found: Mapping[str, Any], _expected: Expectations) -> Outcome:
    """Show the IOMMU mode. `check_gpu_iommu` checks its effect on GPUs."""
    arguments = " ".join(found["arguments"])
    return Outcome("pass", f"{'on' if found['units'] else 'off'}{f' ({arguments})' if arguments else ''}")


def check_gpu_iommu(found: Sequence[Mapping[str, Any]], _expected: Expectations) -> Outcome:
    """No GPU is behind a translating IOMMU: peer-to-peer traffic would take the way through the CPU."""
    translated = [item["address"] for item in found if item["iommu"] not in (None, "identity")]
    if not translated:
        return Outcome("pass", "direct" if found else "none", "direct")
    return Outcome(
        "warn",
        f"{len(translated)} translated",
        "direct",
        f"the IOMMU translates the addresses of {len(translated)} GPUs, which slows GPUDirect",
        "add iommu=pt to the kernel arguments, and reboot",
    )


def check_hugepages(found: Mapping[str, Any], expected: Expectations) -> Outcome:
    """Huge pages set aside at boot, and transparent ones."""
    size = found["size_kib"] // 1024
    measured = f"{found['total']} x {size} MiB, transparent: {found['transparent']}"
    if expected.hugepages is None:
        return Outcome("not-judged", measured)
    wanted = f"{expected.hugepages} x {size} MiB"
    if found["total"] >= expected.hugepages:
        return Outcome("pass", measured, wanted)
    return Outcome(
        "fail",
        measured,
        wanted,
        f"{measured} instead of {wanted}",
        "set vm.nr_hugepages, and reboot if memory is split",
    )


Check = Callable[[Any, Expectations], Outcome]

EVERY_HOST: Mapping[str, tuple[str, Check]] = {
    "os": ("os", check_os),
    "kernel": ("kernel", check_kernel),
    "cpu": ("cpu", check_cpu),
    "memory": ("memory", check_memory),
    "clock": ("clock", check_clock),
    "disk": ("disks", check_disks),
    "secure-boot": ("secure_boot", check_secure_boot),
}
"""Check name -> the measurement that it needs, and the check."""

GPU_NODES: Mapping[str, tuple[str, Check]] = {
    "gpus": ("gpus", check_gpus),
    "gpu-links": ("gpus", check_links),
    "nics": ("nics", check_nics),
    "nic-links": ("nics", check_links),
    "iommu": ("iommu", check_iommu),
    "gpu-iommu": ("gpus", check_gpu_iommu),
    "hugepages": ("hugepages", check_hugepages),
}
"""Likewise, for GPU nodes only."""
