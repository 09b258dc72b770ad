"""What logs and tools report of network adapters: PCIe bandwidth, carrier, adapters that are not readable."""

from __future__ import annotations

import re

from health.commands import NOT_FOUND
from health.config import Config
from health.finding import ADVISE, Finding
from health.ports import CABLE, RISER, Port, fabric_ports, narrow
from health.readings import Readings

LINE = re.compile(r"^(?:<\d+>)?\[\s*[\d.]+\]\s+mlx5_core (?P<bus>[0-9a-f:]{10}\.[0-7]):? (?P<text>.*)$")
# pcie_print_link_status of the kernel: what an adapter could use, and the narrowest link above it.
LIMITED = re.compile(
    r"(?P<gbps>[\d.]+) Gb/s available PCIe bandwidth, limited by [\d.]+ GT/s (?:PCIe )?x(?P<width>\d+) link "
    r"at (?P<place>\S+) \(capable of [\d.]+ Gb/s with [\d.]+ GT/s (?:PCIe )?x(?P<most>\d+) link\)"
)
CARRIER = re.compile(r"\b(?P<interface>[\w.@-]+): [Ll]ost carrier\b")


def check_bandwidth(config: Config, readings: Readings, ports: list[Port]) -> list[Finding]:
    """A fabric adapter can use as much PCIe bandwidth as its port's rate, by the kernel's log of this boot.

    The kernel says where the narrowest link is. One that /sys shows as too narrow is reported by that.
    """
    if not readings.ok("kernel"):
        return []
    rails = {port.address: port for port in fabric_ports(config, ports) if port.address}
    found = {}
    for line in readings.done["kernel"].out.splitlines():
        seen = LINE.match(line)
        limit = LIMITED.search(seen["text"]) if seen else None
        port = rails.get(seen["bus"]) if seen else None
        if limit is None or port is None or narrow(port) or int(limit["width"]) >= int(limit["most"]):
            continue
        if float(limit["gbps"]) < config.link_gbps:
            message = (
                f"{float(limit['gbps']):.0f} Gb/s of PCIe bandwidth for {config.link_gbps}, limited by an "
                f"x{limit['width']} link at {limit['place']}"
            )
            found[port.device] = Finding("pcie_width", port.device, message, RISER)
    return list(found.values())


def lost_carriers(text: str) -> dict[str, int]:
    """Interface -> how often it lost its carrier, from the journal of systemd-networkd."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        if seen := CARRIER.search(line):
            found[seen["interface"]] = found.get(seen["interface"], 0) + 1
    return found


def check_carrier(config: Config, readings: Readings, ports: list[Port]) -> list[Finding]:
    """Interfaces that lost their carrier over the last day, also before this check first ran.

    An interface that is no port of the fabric's is reported only.
    """
    if not config.port_flaps_per_day or not readings.ok("network"):
        return []
    names = {port.interface: port.name for port in fabric_ports(config, ports) if port.interface}
    return [
        Finding(
            "port_flaps",
            names.get(interface, interface),
            f"lost its carrier {count} times in 24 h",
            CABLE,
            action="" if interface in names else ADVISE,
        )
        for interface, count in lost_carriers(readings.done["network"].out).items()
        if count >= config.port_flaps_per_day
    ]


def check_ibstat(readings: Readings, ports: list[Port]) -> list[Finding]:
    """ibstat reads every adapter. It ends with 255 at one that the kernel lists and cannot show (ibpanic).

    Advice: jobs do not call it, and a rail that is not readable drains by `port`.
    """
    done = readings.done.get("ibstat")
    if done is None or done.code in (0, NOT_FOUND) or not ports:
        return []
    lines = [line for line in (done.out + "\n" + done.err).splitlines() if "ibpanic" in line]
    message = lines[-1].partition("] ")[2] or lines[-1] if lines else f"exit code {done.code}"
    return [
        Finding(
            "ibstat", "", f"ibstat fails: {message.strip()}", "see ls /sys/class/infiniband; reboot the node"
        )
    ]
