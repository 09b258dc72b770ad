"""SXids: errors of NVSwitches, from the kernel's log and from Fabric Manager's log (Hopper and earlier)."""

from __future__ import annotations

import re
import time

from health import xid_catalog
from health.config import Config
from health.gpus import short_bus
from health.kernel_log import Line, stamped
from health.xid_catalog import MONITOR, REBOOT, RESET, UNKNOWN

# `nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 63 LTSSM Fault Up`. Lines with `Severity` and
# `Data` after the number belong to it and are no others.
KERNEL = re.compile(
    r"^(?:.*kernel: )?nvidia-nvswitch\d+: SXid \(PCI:([0-9a-fA-F:.]+)\): (\d+), ((?:Non-f|F)atal.*)"
)
# `... [ERROR] [tid 12727] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id
# 00000000:86:00.0 physical id 3 port 61`
MANAGER = re.compile(
    r"^\[([A-Z][a-z]{2} +\d+ \d{4} \d\d:\d\d:\d\d)\] \[ERROR\] .*NVSwitch (non-fatal|fatal) error (\d+) on .*"
    r"pci bus id ([0-9a-fA-F:.]+)(?: physical id \d+)?(?: port (\d+))?"
)
MANAGER_LOG = "/var/log/fabricmanager.log"
TAIL = 1024 * 1024
FIRST = 10000
"""The lowest SXid; Xids are below."""


def parse(log: str) -> list[Line]:
    """Return the SXids of a kernel log, oldest first."""
    found = []
    for at, text in stamped(log):
        hit = KERNEL.match(text)
        if hit:
            found.append(Line(at, short_bus(hit[1]), int(hit[2]), hit[3].strip()))
    return sorted(found, key=lambda line: line.at)


def parse_manager(log: str) -> list[Line]:
    """Return the SXids of Fabric Manager's log; stamps are in seconds since the epoch."""
    found = []
    for text in log.splitlines():
        hit = MANAGER.match(text)
        if hit is None:
            continue
        try:
            at = time.mktime(time.strptime(hit[1], "%b %d %Y %H:%M:%S"))
        except ValueError:
            continue
        severity = "Fatal" if hit[2] == "fatal" else "Non-fatal"
        port = f", Link {hit[5]}" if hit[5] else ""
        found.append(Line(at, short_bus(hit[4]), int(hit[3]), f"{severity}{port}"))
    return found


def read_manager(config: Config) -> list[Line]:
    """Return the SXids of this boot in Fabric Manager's log; stamps are in seconds since boot."""
    booted = boot_time(config)
    if booted is None:
        return []
    try:
        with config.path(MANAGER_LOG).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    lines = parse_manager(text)
    return [Line(line.at - booted, line.bus, line.xid, line.text) for line in lines if line.at > booted]


def boot_time(config: Config) -> int | None:
    """Return when the kernel was started, in seconds since the epoch; None where /proc does not say."""
    try:
        text = config.path("/proc/stat").read_text(encoding="utf-8")
    except OSError:
        return None
    hit = re.search(r"^btime (\d+)$", text, re.M)
    return int(hit[1]) if hit else None


def action_of(line: Line) -> str:
    """Return what an SXid asks for: the catalogue's word, and for those it does not list the line's."""
    if line.xid in xid_catalog.SXIDS_ALWAYS_FATAL:
        return REBOOT
    if line.xid in xid_catalog.SXIDS_FATAL:
        return RESET
    if line.xid in xid_catalog.SXIDS_NON_FATAL:
        return MONITOR
    if line.text.startswith("Fatal"):
        return RESET
    return MONITOR if line.xid in xid_catalog.SXIDS_OTHER else UNKNOWN
