"""GPUs: number, driver, memory, PCIe links, clocks, and requested recovery actions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from health.commands import CommandResult
from health.config import Config
from health.finding import Finding
from health.readings import ROW_FIELDS, Readings

RESET = "drain the node and reset the GPU (nvidia-smi --gpu-reset), or reboot"
REPLACE = "run the vendor's field diagnostics; such a GPU is exchanged"
# What nvidia-smi prints in place of values of a GPU that does not answer.
UNREADABLE = (
    "[unknown error]",
    "[gpu is lost]",
    "[gpu requires reset]",
    "[gpu access blocked by the operating system]",
)
# A row of values has more commas than any message.
ROW_COMMAS = 5
# A GPU before Ampere is exchanged from this number of retired pages on (NVIDIA, Dynamic Page Retirement).
MOST_RETIRED_PAGES = 60


@dataclass(frozen=True)
class Gpu:
    """One GPU in nvidia-smi. `bus` is domain:bus:device in lower case, as in the kernel log."""

    index: int
    bus: str
    values: dict[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Name in findings."""
        return f"GPU {self.index}"

    def number(self, name: str) -> int | None:
        """A field as a number; None if this GPU or driver does not have it."""
        text = self.values.get(name, "")
        return int(float(text)) if text.replace(".", "", 1).isdigit() else None

    def says(self, name: str, *words: str) -> bool:
        """Whether a field is one of `words`."""
        return self.values.get(name, "").lower() in words

    @property
    def mig(self) -> bool:
        """Whether MIG mode is enabled."""
        return self.says("mig.mode.current", "enabled")


def short_bus(text: str) -> str:
    """`00000000:1B:00.0` and `0000:1b:00` as `0000:1b:00`."""
    domain, _, rest = text.strip().lower().partition(":")
    return f"{domain[-4:].zfill(4)}:{rest.partition('.')[0]}"


def parse(text: str, names: tuple[str, ...]) -> list[Gpu]:
    """Parse `nvidia-smi --query-gpu`. Lines with another number of fields are not GPUs."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        values = dict(zip(names, cells, strict=True)) if len(cells) == len(names) else {}
        if values.get("index", "").isdigit():
            found.append(Gpu(int(values["index"]), short_bus(values["pci.bus_id"]), values))
    return found


def buses(config: Config) -> list[str]:
    """GPUs on the PCI bus: NVIDIA functions of the classes VGA and 3D controller, in order."""
    return sorted(
        short_bus(device.name)
        for device in config.path("/sys/bus/pci/devices").glob("*")
        if _text(device / "vendor") == "0x10de"
        and _text(device / "class")[:6] in ("0x0300", "0x0302")
        and not (device / "physfn").exists()
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def message_of(done: CommandResult) -> str:
    """Return what nvidia-smi says of its failure, in one line: the message, and not the rows above it."""
    lines = [line for line in done.out.splitlines() if line.strip() and line.count(",") < ROW_COMMAS]
    return replace(done, out="\n".join(lines)).message


def check_count(config: Config, readings: Readings, gpus: list[Gpu]) -> list[Finding]:
    """Find GPUs missing on the bus or in the driver."""
    bus = len(buses(config))
    if bus != config.gpus:
        return [
            Finding(
                "gpu_count",
                "",
                f"{bus} of {config.gpus} GPUs on the PCI bus",
                "power-cycle the node; reseat or replace a GPU that stays away",
            )
        ]
    if not readings.ok("gpus"):
        message = message_of(readings.done["gpus"])
        return [
            Finding(
                "gpu_count", "", f"nvidia-smi: {message}", "see the kernel's log for what the driver says"
            )
        ]
    lost = [
        Finding("gpu_count", gpu.label, f"cannot be read: {words}", RESET)
        for gpu in gpus
        if (words := next((text for text in gpu.values.values() if text.lower() in UNREADABLE), ""))
    ]
    if lost:
        return lost
    if len(gpus) != config.gpus:
        return [
            Finding("gpu_count", "", f"{len(gpus)} of {config.gpus} GPUs in nvidia-smi", "reboot the node")
        ]
    return []


def check_inforom(_config: Config, readings: Readings, gpus: list[Gpu]) -> list[Finding]:
    """No GPU's InfoROM is corrupt. nvidia-smi says so below what it was asked for."""
    labels = {gpu.bus: gpu.label for gpu in gpus}
    return [
        Finding("inforom", labels.get(short_bus(bus), f"PCI {bus}"), "its InfoROM is corrupt", REPLACE)
        for bus in readings.corrupt_inforoms()
    ]


def check_driver(config: Config, _readings: Readings, _gpus: list[Gpu]) -> list[Finding]:
    """Find a loaded driver of another version."""
    loaded = _text(config.path("/sys/module/nvidia/version"))
    if not loaded:
        return [
            Finding("driver", "", "the driver is not loaded", "modprobe nvidia, and see the kernel's log")
        ]
    if config.driver_version and loaded != config.driver_version:
        return [
            Finding(
                "driver",
                "",
                f"driver {loaded} is loaded instead of {config.driver_version}",
                "install the version of the fleet file, and reboot",
            )
        ]
    return []


def check_ecc(config: Config, _readings: Readings, gpus: list[Gpu]) -> list[Finding]:
    """Find uncorrectable errors since the driver was loaded. A GPU without ECC has none."""
    found = []
    for gpu in gpus:
        if gpu.says("ecc.mode.current", "disabled"):
            found.append(Finding("ecc", gpu.label, "ECC is off", "nvidia-smi -e 1, and reboot"))
            continue
        count = gpu.number("ecc.errors.uncorrected.volatile.total")
        if count is not None and count > config.ecc_uncorrectable:
            found.append(Finding("ecc", gpu.label, f"{count} uncorrectable ECC errors", RESET, evicts=True))
    return found


def check_repairs(_config: Config, readings: Readings, gpus: list[Gpu]) -> list[Finding]:
    """Find rows that could not be remapped, and repairs that wait for a reset. Older GPUs retire pages."""
    found = []
    labels = {gpu.bus: gpu.label for gpu in gpus}
    for gpu in gpus:
        if gpu.says("retired_pages.pending", "yes"):
            found.append(Finding("memory_repair_pending", gpu.label, "a page waits to be retired", RESET))
        kinds = ("retired_pages.single_bit_ecc.count", "retired_pages.double_bit.count")
        pages = sum(gpu.number(name) or 0 for name in kinds)
        if pages >= MOST_RETIRED_PAGES:
            message = f"{pages} retired pages, limit {MOST_RETIRED_PAGES}"
            found.append(Finding("memory_repair_failed", gpu.label, message, REPLACE))
    if not readings.ok("rows"):
        # Without GPUs another check reports it.
        return (
            [*found, *_unread("memory_repair_failed", "remapped rows", readings, "rows")] if gpus else found
        )
    for line in readings.done["rows"].out.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(ROW_FIELDS):
            continue
        label = labels.get(short_bus(cells[0]), cells[0])
        if cells[2].lower() in ("yes", "1"):
            found.append(Finding("memory_repair_failed", label, "a row could not be remapped", REPLACE))
        if cells[1].lower() in ("yes", "1"):
            found.append(Finding("memory_repair_pending", label, "a row waits to be remapped", RESET))
    return found


def _unread(check: str, what: str, readings: Readings, name: str) -> list[Finding]:
    return [Finding(check, "", f"{what} were not measured: {readings.done[name].message}", "run it by hand")]


def check_recovery(_config: Config, _readings: Readings, gpus: list[Gpu]) -> list[Finding]:
    """Find GPUs whose driver requests a reset or a reboot."""
    return [
        Finding("recovery_action", gpu.label, f"the driver asks for: {wanted}", RESET, evicts=True)
        for gpu in gpus
        if (wanted := gpu.values.get("gpu_recovery_action", "None")) not in ("None", "[N/A]", "N/A", "")
    ]


def check_pcie(_config: Config, _readings: Readings, gpus: list[Gpu]) -> list[Finding]:
    """Find links below full width, and below full speed while the GPU works: an idle link may save power."""
    found = []
    for gpu in gpus:
        width, most = gpu.number("pcie.link.width.current"), gpu.number("pcie.link.width.max")
        if width is not None and most is not None and width < most:
            message = f"PCIe link x{width} of x{most}"
            found.append(Finding("pcie_width", gpu.label, message, "reseat the GPU; replace it or its riser"))
        now, fastest = gpu.number("pcie.link.gen.current"), gpu.number("pcie.link.gen.max")
        busy = (gpu.number("utilization.gpu") or 0) > 0
        if busy and now is not None and fastest is not None and now < fastest:
            message = f"PCIe generation {now} of {fastest} under load"
            found.append(Finding("pcie_generation", gpu.label, message, "see the link's errors (lspci -vv)"))
    return found


HARDWARE_REASONS = {
    "hw_thermal_slowdown": "its temperature",
    "hw_power_brake_slowdown": "the power supply (power brake)",
    "hw_slowdown": "the hardware",
}


def check_throttle(_config: Config, _readings: Readings, gpus: list[Gpu]) -> list[Finding]:
    """Find hardware slowdowns in two runs in a row; software slowdowns are only reported."""
    found = []
    for gpu in gpus:
        for name, why in HARDWARE_REASONS.items():
            if gpu.says(f"clocks_event_reasons.{name}", "active"):
                message = f"is slowed down by {why}"
                remedy = "see fans, inlet temperature and power supplies (BMC)"
                found.append(Finding("throttle", gpu.label, message, remedy, confirmed=False))
                break
        if gpu.says("clocks_event_reasons.sw_thermal_slowdown", "active"):
            degrees = gpu.values.get("temperature.gpu", "?")
            message = f"the driver lowers its clocks at {degrees} C"
            found.append(Finding("throttle_software", gpu.label, message, "see fans and inlet temperature"))
    return found


CHECKS = (
    check_count,
    check_inforom,
    check_driver,
    check_ecc,
    check_repairs,
    check_recovery,
    check_pcie,
    check_throttle,
)
