"""The host: file systems, clock, memory."""

from __future__ import annotations

import os
from pathlib import Path

from health.config import Config
from health.finding import Finding
from health.memory import Memory
from health.readings import Readings

LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs"})
GIB_IN_KIB = 1024**2
# Firmware may reserve slightly different amounts at each boot; a memory module is far more.
MEMORY_SHARE = 0.98


def check_disks(config: Config) -> list[Finding]:
    """Find configured paths without free space or inodes, or without write access."""
    found = []
    for path in config.disk_paths:
        try:
            state = os.statvfs(config.path(path))
        except OSError as error:
            found.append(
                Finding("disk", path, f"was not measured: {error.strerror}", "see why it is not there")
            )
            continue
        if state.f_flag & os.ST_RDONLY:
            found.append(Finding("read_only", path, "is read-only", "see the kernel's log for disk errors"))
        for what, free, total in (
            ("space", state.f_bavail, state.f_blocks),
            ("inodes", state.f_favail, state.f_files),
        ):
            if total and 100.0 * free / total < config.disk_min_free_percent:
                share = 100.0 * free / total
                message = f"{share:.1f}% {what} free, {config.disk_min_free_percent:g}% are needed"
                found.append(Finding("disk", path, message, "remove what is not needed"))
    return found


def check_read_only(config: Config) -> list[Finding]:
    """Find local file systems that the kernel made read-only after an error, unless fstab asks for it."""
    declared = declared_read_only(config.path("/etc/fstab"))
    return [
        Finding("read_only", path, "is read-only", "see the kernel's log for disk errors")
        for path in read_only_mounts(config.path("/proc/self/mountinfo"))
        if path not in declared and path not in config.disk_paths
    ]


def declared_read_only(fstab: Path) -> set[str]:
    """Mount points that are read-only in fstab."""
    rows = [line.split() for line in _lines(fstab) if not line.startswith("#")]
    return {row[1] for row in rows if len(row) > 3 and "ro" in row[3].split(",")}


def read_only_mounts(mountinfo: Path) -> list[str]:
    """Mount points of local file systems that are read-only as a whole."""
    found = []
    for line in _lines(mountinfo):
        place, _, system = line.partition(" - ")
        kind, _, rest = system.partition(" ")
        options = rest.rpartition(" ")[2].split(",")
        if kind in LOCAL and "ro" in options:
            found.append(place.split()[4])
    return found


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def check_clock(config: Config, readings: Readings) -> list[Finding]:
    """Find a clock offset, from chrony: munge and Slurm refuse hosts with different clocks."""
    if not readings.ok("clock"):
        message = readings.done["clock"].message
        return [Finding("clock_source", "", f"chrony does not answer: {message}", "start chrony")]
    cells = readings.done["clock"].out.strip().split(",")
    # Reference, its name, stratum, reference time, offset of the system clock, ..., leap status.
    if len(cells) < 14:
        return [Finding("clock_source", "", "chrony's answer is not readable", "run chronyc -c tracking")]
    found = []
    if cells[13] == "Not synchronised":
        found.append(Finding("clock_source", "", "the clock is not synchronised", "see chronyc sources"))
    offset = float(cells[4])
    if abs(offset) > config.clock_offset_s:
        message = f"the clock is {abs(offset):.1f} s off, limit {config.clock_offset_s:g} s"
        found.append(Finding("clock", "", message, "chronyc makestep, and see chronyc sources"))
    return found


def check_memory(config: Config, memory: Memory) -> list[Finding]:
    """Find less memory than before, and a lack of free memory."""
    values = {}
    for line in config.path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        name, _, rest = line.partition(":")
        values[name] = int(rest.split()[0])
    total, free = values["MemTotal"], values.get("MemAvailable", values["MemTotal"])
    most = max(memory.memory_kib, total)
    memory.memory_kib = most
    found = []
    if total < most * MEMORY_SHARE:
        message = f"{total / GIB_IN_KIB:.0f} GiB of memory, it had {most / GIB_IN_KIB:.0f}"
        remedy = (
            "look for a failed DIMM (BMC log); if it was taken out on purpose: `health-check forget memory`"
        )
        found.append(Finding("memory", "", message, remedy))
    if 100.0 * free / total < config.memory_min_available_percent:
        message = f"{100.0 * free / total:.1f}% of the memory is available"
        found.append(Finding("memory", "", message, "see what holds it", confirmed=False))
    return found


def check_memory_errors(config: Config) -> list[Finding]:
    """Find uncorrectable errors of host memory since boot."""
    count = 0
    for file in config.path("/sys/devices/system/edac/mc").glob("mc*/ue_count"):
        text = file.read_text(encoding="utf-8").strip()
        count += int(text) if text.isdigit() else 0
    if not count:
        return []
    message = f"{count} uncorrectable errors of the host's memory"
    return [Finding("memory_errors", "", message, "exchange the DIMM that the BMC names, and reboot")]
