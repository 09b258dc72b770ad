"""NVLink and Fabric Manager."""

from __future__ import annotations

import re

from health.config import UNKNOWN, Config
from health.finding import Finding
from health.gpus import Gpu
from health.memory import Memory
from health.readings import Readings

GPU_LINE = re.compile(r"^GPU (\d+):")
STATUS_LINE = re.compile(r"^\s*Link (\d+):\s*(.+?)\s*$")
ERROR_LINE = re.compile(r"^\s*Link (\d+): ([A-Za-z ]+):\s*(\d+)")
HOUR = 3600.0


def inactive(text: str) -> dict[int, list[int]]:
    """GPU -> its down links, from `nvidia-smi nvlink --status`."""
    found: dict[int, list[int]] = {}
    gpu = -1
    for line in text.splitlines():
        if head := GPU_LINE.match(line):
            gpu = int(head[1])
        elif (link := STATUS_LINE.match(line)) and "inactive" in link[2].lower():
            found.setdefault(gpu, []).append(int(link[1]))
    return found


def errors(text: str) -> dict[int, int]:
    """GPU -> total errors of all links, from `nvidia-smi nvlink --errorcounters`."""
    found: dict[int, int] = {}
    gpu = -1
    for line in text.splitlines():
        if head := GPU_LINE.match(line):
            gpu = int(head[1])
            found[gpu] = 0
        elif counter := ERROR_LINE.match(line):
            found[gpu] = found.get(gpu, 0) + int(counter[3])
    return found


def check_links(_config: Config, readings: Readings, gpus: list[Gpu]) -> list[Finding]:
    """Find down links. Links of a GPU in MIG mode are not used."""
    if not gpus:
        return []
    if not readings.ok("nvlinks"):
        said = readings.done["nvlinks"].said
        return [Finding("nvlink", "", f"links were not measured: {said}", "run nvidia-smi nvlink -s")]
    divided = {gpu.index for gpu in gpus if gpu.mig}
    return [
        Finding(
            "nvlink",
            f"GPU {gpu}",
            f"NVLink {_numbers(links)} {'is' if len(links) == 1 else 'are'} inactive",
            "see Fabric Manager's log and Xid 74; reset the GPUs together",
        )
        for gpu, links in inactive(readings.done["nvlinks"].out).items()
        if gpu not in divided
    ]


def _numbers(links: list[int]) -> str:
    return ", ".join(map(str, links[:6])) + (f" and {len(links) - 6} more" if len(links) > 6 else "")


def check_errors(config: Config, readings: Readings, memory: Memory) -> list[Finding]:
    """Find hourly errors above a configured limit: none is published. Counts since the last run."""
    if not readings.ok("nvlink_errors"):
        return []
    counts = {str(gpu): count for gpu, count in errors(readings.done["nvlink_errors"].out).items()}
    before: dict[str, int] = memory.nvlinks.get("counts", {})
    since = readings.now - memory.nvlinks.get("time", readings.now)
    memory.nvlinks = {"time": readings.now, "counts": counts}
    if not config.nvlink_errors_per_hour or since <= 0:
        return []
    rates = {gpu: max(0, count - before.get(gpu, count)) * HOUR / since for gpu, count in counts.items()}
    return [
        Finding(
            "nvlink_errors", f"GPU {gpu}", f"{rate:.0f} NVLink errors an hour", "see the link's cable or tray"
        )
        for gpu, rate in rates.items()
        if rate > config.nvlink_errors_per_hour
    ]


def check_fabric_manager(config: Config, readings: Readings, gpus: list[Gpu]) -> list[Finding]:
    """Find a stopped Fabric Manager on nodes with NVSwitches, and GPUs outside the fabric."""
    if not config.nvswitches:
        return []
    state = readings.done["fabric_manager"]
    found = []
    # Without a published number of NVSwitches, a missing service is not a fault.
    judged = config.nvswitches != UNKNOWN or state.code == 0 or state.out.strip() == "failed"
    if judged and state.code != 0:
        found.append(
            Finding(
                "fabric_manager",
                "",
                f"Fabric Manager is {state.out.strip() or state.said}",
                "its version has to be the driver's; see /var/log/fabricmanager.log",
            )
        )
        # Then no GPU is in the fabric either; do not report that too.
        return found
    for gpu in gpus:
        where = gpu.values.get("fabric.state", "")
        status = gpu.values.get("fabric.status", "Success")
        if where in ("", "N/A", "[N/A]", "Not Supported"):
            continue
        if where != "Completed" or status not in ("Success", "N/A", "[N/A]"):
            message = f"is not in the NVLink fabric: {where}, {status}"
            found.append(Finding("fabric_manager", gpu.label, message, "restart Fabric Manager"))
    return found
