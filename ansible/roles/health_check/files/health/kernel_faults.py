"""Faults in the kernel's log that are no Xids: of GPUDirect RDMA and of adapters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from health.config import Config
from health.finding import Finding
from health.kernel_log import stamped

HOUR = 3600.0


@dataclass(frozen=True)
class Pattern:
    """A line that is a fault. `line` may have a group `device`; `message` gets the number of lines."""

    check: str
    line: re.Pattern[str]
    message: Callable[[int], str]
    remedy: str


def _times(count: int) -> str:
    return f" {count} times" if count > 1 else ""


PATTERNS = (
    # `nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping ...`
    Pattern(
        "peermem",
        re.compile(r"(?:^|kernel: )nvidia-peermem \S+ ERROR detected invalid context"),
        lambda count: f"nvidia-peermem reports an invalid context{_times(count)}",
        "check that jobs use GPUDirect RDMA (NCCL_DEBUG=INFO); reload nvidia_peermem if messages go on",
    ),
    # `mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 1): Detected insufficient power on the PCIe slot ...`
    Pattern(
        "adapter_power",
        re.compile(r"(?:^|kernel: )mlx5_core (?P<device>[0-9a-f:.]+): .*insufficient power on the PCIe slot"),
        lambda count: f"too little power from the PCIe slot{_times(count)}",
        "check the adapter's slot, riser and auxiliary power cable",
    ),
    # `mlx5_port_module_event:1131:(pid 0): Port module event[error]: module 0, Cable error, High Temperature`
    Pattern(
        "adapter_temperature",
        re.compile(
            r"(?:^|kernel: )(?:mlx5_core (?P<device>[0-9a-f:.]+): )?.*Port module event\[error\]: "
            r"module \d+, Cable error, High Temperature"
        ),
        lambda count: f"a transceiver or cable is too hot{_times(count)}",
        "check the airflow at the adapter and its cable; the port may go down",
    ),
    # `mlx5_core 0000:d2:00.0: mlx5_cmd_out_err:838:(pid 268269): ACCESS_REG(0x805) op_mod(0x1) failed, ...`
    Pattern(
        "adapter_firmware",
        re.compile(r"(?:^|kernel: )mlx5_core (?P<device>[0-9a-f:.]+): .*ACCESS_REG\(0x805\) .*failed"),
        lambda count: f"its firmware refuses to be read{_times(count)}",
        "update the adapter's firmware; something asks for what it does not have",
    ),
)


def check(log: str, config: Config, uptime_s: float | None = None) -> list[Finding]:
    """Return one finding for each fault and device in the lines of the last `xid_monitor_hours`.

    Without `uptime_s`, the seconds since boot, all lines count.
    """
    since = -1.0 if uptime_s is None else uptime_s - config.xid_monitor_hours * HOUR
    counts: Counter[tuple[int, str]] = Counter()
    for at, text in stamped(log):
        if at < since:
            continue
        for place, pattern in enumerate(PATTERNS):
            hit = pattern.line.search(text)
            if hit:
                counts[place, hit.groupdict().get("device") or ""] += 1
                break
    return [
        Finding(PATTERNS[place].check, device, PATTERNS[place].message(count), PATTERNS[place].remedy)
        for (place, device), count in sorted(counts.items())
    ]


def uptime(config: Config) -> float | None:
    """Return the seconds since boot; None where /proc does not say."""
    try:
        return float(config.path("/proc/uptime").read_text(encoding="utf-8").split()[0])
    except (OSError, ValueError, IndexError):
        return None
