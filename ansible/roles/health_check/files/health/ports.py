"""Fabric ports in /sys: state, rate, PCIe link, and growth of error counters."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from health.config import UNKNOWN, Config
from health.finding import Finding
from health.memory import Memory

LAYERS = {"infiniband": "InfiniBand", "roce": "Ethernet"}
HOUR, DAY = 3600.0, 86400.0
CABLE = "see the cable and both its ends; exchange it if the port stays so"


@dataclass(frozen=True)
class Port:
    """A port of an adapter. Widths are PCI Express lanes, 0 if unknown."""

    device: str
    layer: str
    state: str
    physical: str
    gbps: float
    rate: str
    width: int = 0
    width_most: int = 0
    counters: dict[str, int] = field(default_factory=dict)


def read(config: Config) -> list[Port]:
    """All ports of all RDMA devices, in order of number."""
    folder = config.path("/sys/class/infiniband")
    found = [
        _port(device, port)
        for device in folder.glob("*")
        for port in sorted((device / "ports").glob("[0-9]*"))
    ]
    return sorted(found, key=lambda port: (len(port.device), port.device))


def _port(device: Path, port: Path) -> Port:
    rate = _text(port / "rate")
    number = rate.split(" ")[0]
    counters = {}
    for item in (port / "counters").glob("*"):
        text = _text(item)
        if text.isdigit():
            counters[item.name] = int(text)
    return Port(
        device=device.name,
        layer=_text(port / "link_layer"),
        state=_text(port / "state").partition(": ")[2],
        physical=_text(port / "phys_state").partition(": ")[2],
        gbps=float(number) if number.replace(".", "", 1).isdigit() else 0.0,
        rate=rate,
        width=_number(device / "device/current_link_width"),
        width_most=_number(device / "device/max_link_width"),
        counters=counters,
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int:
    text = _text(path)
    return int(text) if text.isdigit() else 0


def fault(port: Port, config: Config) -> str:
    """The fault of a compute fabric port; empty without one."""
    layer = LAYERS[config.fabric_kind]
    if port.layer != layer:
        return f"is {port.layer} instead of {layer}"
    if port.state != "ACTIVE":
        return f"is {port.state or 'not readable'} ({port.physical})"
    if port.gbps < config.link_gbps:
        return f"at {port.gbps:g} Gb/s instead of {config.link_gbps}"
    return ""


def check_ports(config: Config, ports: list[Port], memory: Memory) -> list[Finding]:
    """Find named ports that are down or slow; without names, missing good ports.

    Storage adapters are of the same vendor and may be slower: without names, a bad port
    counts only if good ones are missing, or if it was good before.
    """
    faults = {port.device: said for port in ports if (said := fault(port, config))}
    good = [port.device for port in ports if port.device not in faults]
    there = {port.device for port in ports}
    if config.devices:
        return [_finding(name, faults, there) for name in config.devices if name not in good]
    memory.good_ports = sorted({*memory.good_ports, *good})
    worse = [name for name in memory.good_ports if name not in good]
    if config.adapters == UNKNOWN:
        # Without a published number of adapters the purpose of the others is unknown.
        layer = LAYERS[config.fabric_kind]
        worse = sorted(
            {*worse, *(port.device for port in ports if port.device in faults and port.layer == layer)}
        )
    elif len(good) < config.adapters:
        worse = sorted({*worse, *faults})
        if len(there) < config.adapters and there.issuperset(worse):
            message = f"{len(there)} of {config.adapters} ports are there"
            missing = Finding("port", "", message, "reseat or replace the missing adapter")
            return [missing, *(_finding(name, faults, there) for name in worse)]
    return [_finding(name, faults, there) for name in worse]


def _finding(name: str, faults: dict[str, str], there: set[str]) -> Finding:
    if name not in there:
        return Finding("port", name, "is not there", "reseat or replace the adapter")
    return Finding("port", name, faults[name], CABLE)


def check_links(config: Config, ports: list[Port]) -> list[Finding]:
    """Find PCIe links of adapters below the width of both ends."""
    return [
        Finding(
            "pcie_width", port.device, f"PCIe link x{port.width} of x{port.width_most}", "reseat the adapter"
        )
        for port in ports
        if port.width
        and port.width < port.width_most
        and (not config.devices or port.device in config.devices)
    ]


def check_counters(config: Config, ports: list[Port], memory: Memory, now: float) -> list[Finding]:
    """Find link flaps in the last day, and other hourly errors.

    Counts since the last periodic run; a smaller counter was reset.
    """
    found = []
    chosen = [port for port in ports if not config.devices or port.device in config.devices]
    for port in chosen:
        before = memory.ports.get(port.device, {})
        since = now - before.get("time", now)
        grown = _grown(before.get("counters", {}), port.counters)
        flaps = [[at, count] for at, count in before.get("flaps", []) if now - at < DAY]
        if grown.get("link_downed"):
            flaps.append([now, grown["link_downed"]])
        rates = {name: count * HOUR / since for name, count in grown.items()} if since > 0 else {}
        memory.ports[port.device] = {
            "time": now,
            "counters": port.counters,
            "flaps": flaps,
            "rates": {name: round(rate, 3) for name, rate in rates.items() if _is_error(name)},
        }
        down = sum(count for _, count in flaps)
        if config.port_flaps_per_day and down >= config.port_flaps_per_day:
            found.append(Finding("port_flaps", port.device, f"went down {down} times in 24 h", CABLE))
        for name, limit in config.port_errors_per_hour.items():
            if rates.get(name, 0.0) > limit:
                message = f"{name}: {rates[name]:.0f} an hour, limit {limit:g}"
                found.append(Finding("port_errors", port.device, message, CABLE))
    for gone in set(memory.ports) - {port.device for port in chosen}:
        del memory.ports[gone]
    return found


def _grown(before: dict[str, int], now: dict[str, int]) -> dict[str, int]:
    return {
        name: count - before[name] if count >= before[name] else count
        for name, count in now.items()
        if name in before
    }


def _is_error(name: str) -> bool:
    return not name.endswith(("_data", "_packets", "_wait")) and not name.startswith(("unicast", "multicast"))
