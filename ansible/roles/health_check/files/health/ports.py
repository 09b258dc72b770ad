"""Fabric ports in /sys: state, rate and PCIe link."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from health.config import UNKNOWN, Config
from health.finding import ADVISE, Finding
from health.memory import Memory

LAYERS = {"infiniband": "InfiniBand", "roce": "Ethernet"}
CABLE = "see the cable and both its ends; exchange it if the port stays so"
RISER = "reseat the riser or the PCIe switch"
NAME_RAILS = "name the fabric's devices (`rails` in the fleet file): other adapters look the same"
# In the vital product data of the adapters through which Fabric Manager and NVLSM manage NVSwitches:
# nvidia-fabricmanager-start.sh finds them by it (siderolabs/extensions#893, pull request 895).
BRIDGE_MARK = b"SW_MNG"
PCI_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
CARRIER = "carrier_down"


@dataclass(frozen=True)
class Link:
    """A PCI Express link between an adapter and the processor: lanes now, and most that both ends can do."""

    address: str
    width: int
    most: int


@dataclass(frozen=True)
class Port:
    """A port of an adapter; number 0 stands for an adapter of which the kernel shows no port.

    `name` is the device's, with the port's number where it has several. Widths are lanes of PCI Express, 0
    where the kernel does not say. `above` are the links between the adapter's and the processor.
    """

    device: str
    layer: str
    state: str
    physical: str
    gbps: float
    rate: str
    width: int = 0
    width_most: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    number: int = 1
    name: str = ""
    kind: str = ""
    bridge: bool = False
    address: str = ""
    interface: str = ""
    above: tuple[Link, ...] = ()


def read(config: Config) -> list[Port]:
    """All ports of all RDMA devices, in order of number."""
    folder = config.path("/sys/class/infiniband")
    found = []
    for device in folder.glob("*"):
        ports = sorted((device / "ports").glob("[0-9]*"), key=lambda port: int(port.name))
        found += [_port(config, device, port, several=len(ports) > 1) for port in ports]
        if not ports:
            found.append(Port(device.name, "", "", "", 0.0, "", number=0, name=device.name))
    return sorted(found, key=lambda port: (len(port.device), port.device, port.number))


def _port(config: Config, device: Path, port: Path, *, several: bool) -> Port:
    rate = _text(port / "rate")
    number = rate.split(" ")[0]
    counters = {}
    for item in (*(port / "counters").glob("*"), *(port / "hw_counters").glob("*")):
        text = _text(item)
        if text.isdigit():
            counters[item.name] = int(text)
    interface = _interface(device, int(port.name))
    if interface is not None and (downs := _text(interface / "carrier_down_count")).isdigit():
        counters[CARRIER] = int(downs)
    layer = _text(port / "link_layer")
    place = (device / "device").resolve()
    return Port(
        device=device.name,
        layer=layer,
        state=_text(port / "state").partition(": ")[2],
        physical=_text(port / "phys_state").partition(": ")[2],
        gbps=float(number) if number.replace(".", "", 1).isdigit() else 0.0,
        rate=rate,
        width=_number(device / "device/current_link_width"),
        width_most=_number(device / "device/max_link_width"),
        counters=counters,
        number=int(port.name),
        name=f"{device.name}/{port.name}" if several else device.name,
        kind=_text(device / "hca_type"),
        bridge=_is_bridge(config, device, layer),
        address=place.name,
        interface=interface.name if interface is not None else "",
        above=_links_above(place),
    )


def _is_bridge(config: Config, device: Path, layer: str) -> bool:
    """Whether an adapter manages NVSwitches. Those of the fabric are not asked: the answer takes long."""
    if device.name in {name.partition(":")[0] for name in config.devices} or layer != "InfiniBand":
        return False
    if device.name in config.bridges:
        return True
    try:
        return BRIDGE_MARK in (device / "device/vpd").read_bytes()
    except OSError:
        return False


def _interface(device: Path, port: int) -> Path | None:
    """The network interface of a port."""
    found = sorted((device / "device/net").glob("*"))
    ours = [item for item in found if _text(item / "dev_port") in ("", str(port - 1))]
    return ours[0] if ours else None


def _links_above(place: Path) -> tuple[Link, ...]:
    """The links of the bridges above a PCI function, as the folders of /sys lie in each other."""
    return tuple(
        Link(parent.name, _number(parent / "current_link_width"), _number(parent / "max_link_width"))
        for parent in place.parents
        if PCI_ADDRESS.fullmatch(parent.name)
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
    if not port.number:
        return "is listed by the kernel without a port"
    if port.layer != layer:
        return f"is {port.layer or 'of no kind'} instead of {layer}"
    if port.state != "ACTIVE":
        return f"is {port.state or 'not readable'} ({port.physical})"
    if port.gbps < config.link_gbps:
        return f"at {port.gbps:g} Gb/s instead of {config.link_gbps}"
    return ""


def find(ports: list[Port], name: str) -> Port | None:
    """The port that a rail names: `mlx5_0` is the first port of that device, `mlx5_0:2` its second."""
    device, _, number = name.partition(":")
    ours = [port for port in ports if port.device == device and port.number in (0, int(number or 1))]
    return ours[0] if ours else None


def fabric_ports(config: Config, ports: list[Port]) -> list[Port]:
    """The ports of the compute fabric: those that were named, else all that manage no NVSwitch."""
    if config.devices:
        named = [find(ports, name) for name in config.devices]
        return [port for port in named if port is not None]
    return [port for port in ports if not port.bridge]


def check_ports(config: Config, ports: list[Port], memory: Memory) -> list[Finding]:
    """Find named ports that are down or slow; without names, missing good ports.

    Storage adapters are of the same vendor and may be slower: without names, a bad port
    counts only if good ones are missing, or if it was good before.
    """
    if config.devices:
        return [found for name in config.devices if (found := _named(config, ports, name)) is not None]
    ports = fabric_ports(config, ports)
    faults = {port.name: message for port in ports if (message := fault(port, config))}
    good = [port.name for port in ports if port.name not in faults]
    bridges = set(config.bridges)
    memory.good_ports = sorted({*memory.good_ports, *good} - bridges)
    worse = [name for name in memory.good_ports if name not in good]
    if config.adapters == UNKNOWN:
        return _without_number(config, ports, faults, worse)
    if len(good) >= config.adapters:
        return [_finding(name, faults) for name in worse]
    there = {port.name for port in ports}
    if len(there) <= config.adapters:
        worse = sorted({*worse, *faults})
        if len(there) < config.adapters and there.issuperset(worse):
            message = f"{len(there)} of {config.adapters} ports are there"
            missing = Finding("port", "", message, "reseat or replace the missing adapter")
            return [missing, *(_finding(name, faults) for name in worse)]
        return [_finding(name, faults) for name in worse]
    return _among_others(config, ports, faults, worse, config.adapters - len(good))


def _among_others(
    config: Config, ports: list[Port], faults: dict[str, str], worse: list[str], lacking: int
) -> list[Finding]:
    """Blame those of more ports than the fabric has that are most likely of it, and no more than are lacking.

    First those that were good before, then those of the good ones' kind that are down, then slow ones.
    """
    alike = [port for port in _alike(config, ports, faults, worse) if port.name in faults]
    blamed = list(worse)
    for group in (
        [port.name for port in alike if port.state != "ACTIVE"],
        [port.name for port in alike if port.state == "ACTIVE"],
    ):
        if len(blamed) < lacking:
            blamed += [name for name in group if name not in blamed]
    found = [_finding(name, faults) for name in blamed]
    if len(blamed) < lacking:
        message = f"{config.adapters - lacking} of {config.adapters} ports are good"
        found.insert(0, Finding("port", "", message, NAME_RAILS))
    return found


def _alike(config: Config, ports: list[Port], faults: dict[str, str], worse: list[str]) -> list[Port]:
    """The ports of the fabric's layer, and of the adapters that the good ones are on."""
    layer = LAYERS[config.fabric_kind]
    kinds = {port.kind for port in ports if port.name not in faults or port.name in worse}
    return [port for port in ports if port.layer == layer and (not kinds or port.kind in kinds)]


def _without_number(
    config: Config, ports: list[Port], faults: dict[str, str], worse: list[str]
) -> list[Finding]:
    """Judge ports where no source says how many belong to the fabric.

    Without a good port the node has no fabric. A port that was never good may be unused (Ethernet that is
    down) or storage's (slower): the first is nothing, the second is reported.
    """
    if len(faults) == len(ports) and not worse:
        message = f"no {LAYERS[config.fabric_kind]} port is up at {config.link_gbps} Gb/s"
        down = "; ".join(f"{name} {message}" for name, message in list(faults.items())[:4])
        return [Finding("port", "", message, f"{down or 'no adapter is there'}. {CABLE}")]
    found = [_finding(name, faults) for name in worse]
    for port in _alike(config, ports, faults, worse):
        if port.name not in faults or port.name in worse:
            continue
        if port.state == "ACTIVE":
            found.append(Finding("port", port.name, faults[port.name], NAME_RAILS, action=ADVISE))
        elif port.layer == "InfiniBand":
            found.append(_finding(port.name, faults))
    return found


def _named(config: Config, ports: list[Port], name: str) -> Finding | None:
    port = find(ports, name)
    if port is None:
        return _finding(name, {})
    message = fault(port, config)
    return _finding(name, {name: message}) if message else None


def _finding(name: str, faults: dict[str, str]) -> Finding:
    if name not in faults:
        return Finding("port", name, "is not there", "reseat or replace the adapter")
    return Finding("port", name, faults[name], CABLE)


def check_unreadable(config: Config, ports: list[Port]) -> list[Finding]:
    """An adapter of which the kernel shows no port, beside the fabric's: ibstat ends in an ibpanic there."""
    fabric = {port.device for port in fabric_ports(config, ports)}
    return [
        Finding("adapter", port.device, fault(port, config), "see the kernel's log; reboot the node")
        for port in ports
        if not port.number and port.device not in fabric
    ]


def check_bridges(ports: list[Port]) -> list[Finding]:
    """The adapters that manage NVSwitches are up. GPUs out of the fabric drain by `fabric_manager`."""
    return [
        Finding(
            "nvswitch_bridge",
            port.name,
            f"which manages an NVSwitch, is {port.state or 'not readable'} ({port.physical})",
            "see nvlsm's and Fabric Manager's logs; reboot the node",
        )
        for port in ports
        if port.bridge and port.state != "ACTIVE"
    ]


def narrow(port: Port) -> str:
    """What /sys shows of a PCIe link that is too narrow; empty where none is.

    Of the adapter's own link, or of the nearest above it that is narrower than the adapter could use: both
    ends of a link show it.
    """
    if 0 < port.width < port.width_most:
        return f"PCIe link x{port.width} of x{port.width_most}"
    for link in port.above:
        if 0 < link.width < min(link.most, port.width_most):
            return f"PCIe link x{link.width} of x{link.most} above it, at {link.address}"
    return ""


def check_links(config: Config, ports: list[Port]) -> list[Finding]:
    """The adapters' PCIe links, and those above them, are as wide as both ends can do."""
    adapters = {port.device: port for port in fabric_ports(config, ports)}.values()
    return [
        Finding("pcie_width", port.device, message, RISER if "above" in message else "reseat the adapter")
        for port in adapters
        if (message := narrow(port))
    ]
