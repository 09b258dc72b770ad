"""NVLink and Fabric Manager."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from health.config import UNKNOWN, Config
from health.finding import Finding
from health.gpus import Gpu
from health.memory import Memory
from health.readings import Readings

GPU_LINE = re.compile(r"^GPU (\d+):\s*(.*?)\s*(?:\(UUID.*)?$")
STATUS_LINE = re.compile(r"^\s*Link (\d+):\s*(.+?)\s*$")
# A value such as `15e-255` is a bit error rate and no count.
COUNTER_LINE = re.compile(r"^\s*Link (\d+): (.+?):\s*(\d+)\s*$")
LINK_LINE = re.compile(r"^\s*Link \d+:")
HOUR = 3600.0
MISSING = "its NVLinks are not reported"

# NVLink up to its fourth generation.
PLAIN = ("replay errors", "recovery errors", "crc errors", "tx discards", "local link integrity errors")
# NVLink 5 (driver 595.91.07, p6-b300.48xlarge): the first name counts what the others count by kind.
TOTALS = (
    (
        "rx errors",
        ("malformed packet errors", "buffer overrun errors", "rx remote errors", "rx general errors"),
    ),
    ("total link recovery events", ("link recovery successful events", "link recovery failed events")),
)
# Two views of the errors that forward error correction has left. Its own counts (FEC Errors) and those of
# lanes before it (Raw Errors) grow on healthy links.
VIEWS = ("effective errors", "symbol errors")
FAILED = "link recovery failed events"
KNOWN = {*PLAIN, *VIEWS, *(name for total, parts in TOTALS for name in (total, *parts))}


@dataclass
class Links:
    """The links of one GPU, as `nvidia-smi nvlink --status` prints them, or a `message` instead."""

    product: str
    active: list[int] = field(default_factory=list)
    inactive: list[int] = field(default_factory=list)
    message: str = ""

    @property
    def dead(self) -> bool:
        """Whether nvidia-smi has one line in place of the links, since none is active."""
        return "links are inactive" in self.message.lower()

    @property
    def divided(self) -> bool:
        """Whether the GPU is divided into MIG instances: its links are not in use then."""
        return "MIG mode" in self.message


def product(name: str) -> str:
    """A GPU's name as the catalogue lists it."""
    return name.removeprefix("NVIDIA ").removeprefix("Tesla ")


def status(text: str) -> dict[int, Links]:
    """GPU -> its links, from `nvidia-smi nvlink --status`.

    A GPU without any active link has one line in place of its links ("... as all links are inActive").
    """
    found: dict[int, Links] = {}
    links = Links("")
    for line in text.splitlines():
        if head := GPU_LINE.match(line):
            links = found[int(head[1])] = Links(product(head[2]))
        elif link := STATUS_LINE.match(line):
            number, speed = int(link[1]), link[2].lower()
            (links.active if speed.endswith("/s") else links.inactive).append(number)
        elif line.strip() and found:
            links.message = links.message or line.strip()
    return found


def wanted(config: Config, found: dict[int, Links]) -> dict[int, int]:
    """GPU -> how many of its links have to be active. GPUs without a known number are omitted.

    By product where the catalogue lists it, else as many as the GPU that has most. GPUs on cards have links
    only where a bridge is plugged on, and a single GPU needs none.
    """
    most = max((len(links.active) for links in found.values()), default=0)
    wants = {}
    for gpu, links in found.items():
        want = config.nvlinks.get(links.product, 0) or most
        card = any(word in links.product.lower() for word in ("pcie", "nvl"))
        if not want and len(found) > 1 and (config.nvswitches > 0 or links.dead):
            want = 1
        if want and (most or not card):
            wants[gpu] = want
    return wants


def fault(links: Links, want: int) -> str:
    """What is wrong with a GPU's links; empty when nothing is."""
    if len(links.active) >= want:
        return ""
    if links.inactive and len(links.active) + len(links.inactive) >= want:
        return f"NVLink {_numbers(links.inactive)} {'is' if len(links.inactive) == 1 else 'are'} inactive"
    if links.active or links.inactive:
        return f"{len(links.active)} of {want} NVLinks are active"
    if links.dead:
        return "all NVLinks are inactive"
    return f"its NVLinks are not readable: {links.message}" if links.message else MISSING


def check_links(config: Config, readings: Readings, gpus: list[Gpu]) -> list[Finding]:
    """Every GPU has as many active links as its kind. Links of a GPU in MIG mode are not in use.

    What nvidia-smi printed is judged whatever its exit code: one GPU that it cannot read must not hide, or
    be blamed on, the others. A GPU that is the only one of its node has none to be linked with: of an H100
    that is passed through to a virtual machine on its own, nvidia-smi prints nothing.
    """
    if not gpus or config.gpus == 1:
        return []
    done = readings.done["nvlinks"]
    found = status(done.out)
    divided = {gpu.index for gpu in gpus if gpu.mig} | {gpu for gpu, links in found.items() if links.divided}
    for gpu in gpus:
        # One that is missing is as one without links.
        found.setdefault(gpu.index, Links(product(gpu.values.get("name", ""))))
    wants = wanted(config, {gpu: links for gpu, links in found.items() if gpu not in divided})
    faults = {gpu: message for gpu, want in wants.items() if (message := fault(found[gpu], want))}
    if not readings.ok("nvlinks") and (not faults or not done.out.strip()):
        return [Finding("nvlink", "", f"links were not measured: {done.message}", "run nvidia-smi nvlink -s")]
    remedy = "see Fabric Manager's log and Xid 74 or 149; reset the GPUs together"
    return [Finding("nvlink", f"GPU {gpu}", message, remedy) for gpu, message in sorted(faults.items())]


def _numbers(links: list[int]) -> str:
    return ", ".join(map(str, links[:6])) + (f" and {len(links) - 6} more" if len(links) > 6 else "")


def counters(text: str) -> dict[int, dict[int, dict[str, int]]]:
    """GPU -> link -> counter -> count, from `nvidia-smi nvlink --errorcounters`; names in lower case."""
    found: dict[int, dict[int, dict[str, int]]] = {}
    links: dict[int, dict[str, int]] = {}
    for line in text.splitlines():
        if head := GPU_LINE.match(line):
            links = found[int(head[1])] = {}
        elif counter := COUNTER_LINE.match(line):
            links.setdefault(int(counter[1]), {})[counter[2].lower()] = int(counter[3])
    return found


def count(link: dict[str, int]) -> int:
    """Return the errors of one link, each counted once: a total, or its parts where they are more."""
    errors = sum(link.get(name, 0) for name in PLAIN)
    errors += max(link.get(name, 0) for name in VIEWS)
    for total, parts in TOTALS:
        errors += max(link.get(total, 0), sum(link.get(name, 0) for name in parts))
    return errors


def check_errors(config: Config, readings: Readings, memory: Memory) -> list[Finding]:
    """Errors by the hour, where a limit is set: no source gives one. Counts since the last run.

    A recovery that failed is reported without a limit: DCGM's health watch fails a GPU that has one.
    """
    if not readings.ok("nvlink_errors"):
        return []
    text = readings.done["nvlink_errors"].out
    read = counters(text)
    counts = {str(gpu): sum(map(count, links.values())) for gpu, links in read.items()}
    failed = {str(gpu): sum(link.get(FAILED, 0) for link in links.values()) for gpu, links in read.items()}
    before: dict[str, int] = memory.nvlinks.get("counts", {})
    failed_before: dict[str, int] = memory.nvlinks.get("failed", {})
    since = readings.now - memory.nvlinks.get("time", readings.now)
    memory.nvlinks = {"time": readings.now, "counts": counts, "failed": failed}
    found = [
        Finding("nvlink_errors", f"GPU {gpu}", f"{new} NVLink recoveries failed", "see Xid 144 to 150")
        for gpu, total in failed.items()
        if (new := total - failed_before.get(gpu, total)) > 0
    ]
    if any(LINK_LINE.match(line) for line in text.splitlines()) and not any(
        KNOWN & link.keys() for links in read.values() for link in links.values()
    ):
        message = "this driver's NVLink error counters have other names than those known"
        found.append(Finding("nvlink_errors", "", message, "see nvidia-smi nvlink -e; upgrade gpufleet"))
    if not config.nvlink_errors_per_hour or since <= 0:
        return found
    rates = {gpu: max(0, total - before.get(gpu, total)) * HOUR / since for gpu, total in counts.items()}
    return found + [
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
    activity = state.out.strip()
    judged = config.nvswitches != UNKNOWN or state.code == 0 or activity == "failed"
    if judged and state.code != 0:
        message = f"is {activity}" if activity else f"was not checked: {state.message}"
        remedy = "its version has to be the driver's; see /var/log/fabricmanager.log"
        found.append(Finding("fabric_manager", "", f"Fabric Manager {message}", remedy))
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
