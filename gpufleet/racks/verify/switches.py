"""What a host of the subnet manager reads of the fabric: links (ibnetdiscover) and switches (ibswinfo)."""

from __future__ import annotations

import re

from msgspec import Struct

# CA   134  1 0x7cfe9003003b4bde 4x EDR - SW  1719 10 0x7cfe9003009ce5b0 ( 'o0001 HCA-1' - 'ib-i1l1s01' )
_LINE = re.compile(
    r"^(?P<kind>CA|SW|RT)\s+\d+\s+(?P<port>\d+)\s+(?P<guid>0x[0-9a-f]+)\s+\d+x (?P<speed>\S+)(?P<peer> - )?"
    r".*?'(?P<name>[^']*)'"
)
_UNKNOWN_SPEED = "???"
_HEALTHY = "OK"


class FabricPort(Struct, frozen=True):
    """A port that ibnetdiscover lists. `linked` is whether there is another port at the other end."""

    node: str
    port: int
    speed: str
    linked: bool


def parse_ports(text: str) -> list[FabricPort]:
    """Return the ports of `ibnetdiscover --ports`, in its order."""
    return [
        FabricPort(seen["name"], int(seen["port"]), seen["speed"], seen["peer"] is not None)
        for line in text.splitlines()
        if (seen := _LINE.match(line))
    ]


def broken_ports(ports: list[FabricPort]) -> list[str]:
    """Describe ports that are up and whose speed the fabric does not know, with nothing at the other end.

    A port without a cable has a speed (`SDR`). With a peer, ibnetdiscover is older than the speed.
    """
    return [
        f"{port.node} port {port.port} has an unknown speed and no peer"
        for port in ports
        if port.speed == _UNKNOWN_SPEED and not port.linked
    ]


def switch_faults(text: str) -> list[str]:
    """Describe what ibswinfo reports as broken, or does not show, of the switches in `text`.

    Each switch's output follows a line `switch <address>`. Rows of a power supply are below its status.
    """
    faults, switch, part = [], "switch", ""
    for line in text.splitlines():
        if line.startswith("switch "):
            switch, part = line.removeprefix("switch ").strip(), ""
            continue
        if line.startswith("---"):
            part = ""
        name, bar, value = (cell.strip() for cell in line.partition("|"))
        if not bar:
            continue
        if re.fullmatch(r"PSU\d+ status", name):
            part = name.partition(" ")[0]
        states = name.endswith("status") or name == "DC power"
        label = name if name.startswith("PSU") or not part else f"{part} {name}"
        if states and value != _HEALTHY:
            faults.append(f"{switch}: {label} is {value or 'not shown'}")
        elif name.endswith("(rpm)") and not value.isdigit():
            faults.append(f"{switch}: {label} is not shown")
    return faults
