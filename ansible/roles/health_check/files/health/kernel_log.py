"""The kernel's log: its lines with their stamps, in each format that dmesg, journalctl and syslog write."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone

# `[12345.678901] ` of dmesg (also behind `host kernel: `), `6,3964,206764307,-;` of /dev/kmsg (microseconds).
SECONDS = re.compile(r"(?:^|kernel: )\[\s*(\d+\.\d+)\]\s?")
KMSG = re.compile(r"^\d+,\d+,(\d+),[^;]*;")
# `2025-01-21T04:41:44,283302+00:00 ` (dmesg --time-format=iso, journalctl -o short-iso).
ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?([+-]\d\d):?(\d\d)\s")
# `[Sun Feb 23 16:24:18 2025] ` (dmesg --ctime) and `Aug 17 06:18:01 ` (syslog: the year is not written).
CTIME = re.compile(r"\[[A-Z][a-z]{2} ([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\]\s?")
SYSLOG = re.compile(r"^([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) ")


@dataclass
class Line:
    """One Xid or SXid of a log. `at` is in seconds since boot; `bus` is that of the GPU or NVSwitch."""

    at: float
    bus: str
    xid: int
    text: str


def stamped(log: str) -> Iterator[tuple[float, str]]:
    """Yield (stamp, text) of each line; lines without a stamp are left out.

    A stamp is in seconds: since boot where dmesg prints such stamps, as the health check asks for them,
    otherwise since the epoch.
    """
    for line in log.splitlines():
        for read in (_seconds, _kmsg, _iso, _ctime, _syslog):
            found = read(line)
            if found is not None:
                yield found
                break


def _seconds(line: str) -> tuple[float, str] | None:
    hit = SECONDS.search(line)
    return (float(hit[1]), line[hit.end() :]) if hit else None


def _kmsg(line: str) -> tuple[float, str] | None:
    hit = KMSG.match(line)
    return (int(hit[1]) / 1e6, line[hit.end() :]) if hit else None


def _iso(line: str) -> tuple[float, str] | None:
    hit = ISO.search(line[:60])
    if hit is None:
        return None
    fraction = float(f"0.{hit[2]}") if hit[2] else 0.0
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(f"{hit[1]}{hit[3]}:{hit[4]}").timestamp() + fraction, line[hit.end() :]
    return None


def _ctime(line: str) -> tuple[float, str] | None:
    hit = CTIME.match(line)
    if hit is None:
        return None
    with contextlib.suppress(ValueError):
        return datetime.strptime(hit[1], "%b %d %H:%M:%S %Y").astimezone().timestamp(), line[hit.end() :]
    return None


def _syslog(line: str) -> tuple[float, str] | None:
    hit = SYSLOG.match(line)
    if hit is None:
        return None
    with contextlib.suppress(ValueError):
        at = datetime.strptime(f"2000 {hit[1]}", "%Y %b %d %H:%M:%S").replace(tzinfo=timezone.utc)
        return at.timestamp(), line[hit.end() :]
    return None
