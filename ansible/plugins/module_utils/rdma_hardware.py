"""RDMA adapters of this host: where they are, and the kind of port that their firmware starts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError

MELLANOX = "0x15b3"
INFINIBAND = "InfiniBand"
ETHERNET = "Ethernet"
KIND_OF_CLASS = {"0x0207": INFINIBAND, "0x0200": ETHERNET}
# What LINK_TYPE_P1 and LINK_TYPE_P2 mean; 3 (VPI) finds out what is at the other end.
NUMBERS = {INFINIBAND: "1", ETHERNET: "2"}
# Releases of the tool print `ETH(2)`, `ETH` or `2`.
NUMBER_OF_NAME = {"IB": "1", "ETH": "2", "VPI": "3"}
PLACES = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin:/opt/mellanox/mft/bin"


class Adapter(NamedTuple):
    """A PCI function with one port. `device` is empty while no driver has it."""

    bus: str
    device: str
    kind: str

    @property
    def parameter(self) -> str:
        """The firmware's name for the kind of its port: function 0 is port 1."""
        return f"LINK_TYPE_P{int(self.bus.rpartition('.')[2], 16) + 1}"

    def __str__(self) -> str:
        return f"{self.device or 'adapter'} ({self.bus})"


def text_of(path: Path) -> str:
    """A file's text without its end of line, empty if there is none."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def read_adapters(root: Path) -> list[Adapter]:
    """All network functions of the vendor, by their place on the bus; virtual ones are left out."""
    devices = {
        (folder / "device").resolve().name: folder for folder in (root / "sys/class/infiniband").glob("*")
    }
    found = []
    for function in sorted((root / "sys/bus/pci/devices").glob("*")):
        kind = KIND_OF_CLASS.get(text_of(function / "class")[:6])
        if text_of(function / "vendor") != MELLANOX or kind is None or (function / "physfn").exists():
            continue
        device = devices.get(function.name)
        if device is not None:
            kind = text_of(device / "ports/1/link_layer") or kind
        found.append(Adapter(function.name, device.name if device else "", kind))
    return found


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Runs a program that may take a while: the firmware answers slowly."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"LC_ALL": "C.UTF-8", "PATH": PLACES},
    )


def firmware_tool() -> str | None:
    """The program that reads and sets the firmware: NVIDIA's or the open one."""
    return shutil.which("mlxconfig", path=PLACES) or shutil.which("mstconfig", path=PLACES)


def parse_next(text: str, parameter: str) -> str | None:
    """What a parameter is from the next boot on, as its number, from the output of a query."""
    for line in text.splitlines():
        words = line.replace("*", " ").split()
        if words[:1] == [parameter]:
            found = re.search(r"^\(?(\d)\)?$|\((\d)\)$", words[-1])
            return (found[1] or found[2]) if found else NUMBER_OF_NAME.get(words[-1])
    return None


def query_next(tool: str, adapter: Adapter) -> str | None:
    """The number of the kind that the port will be; None for an adapter that has no choice."""
    done = run(tool, "-d", adapter.bus, "query", adapter.parameter)
    return parse_next(done.stdout, adapter.parameter) if done.returncode == 0 else None


def set_kind(tool: str, adapter: Adapter, kind: str) -> None:
    """Writes the firmware; raises with what the program says."""
    done = run(tool, "-y", "-d", adapter.bus, "set", f"{adapter.parameter}={NUMBERS[kind]}")
    if done.returncode:
        raise RefusalError(
            f"{adapter} is {adapter.kind}, the fabric is {kind}, and its firmware did not take "
            f"{adapter.parameter}={NUMBERS[kind]}: {(done.stderr or done.stdout).strip()[-300:]} Adapters "
            "of one kind only have to be replaced; for others see `mlxconfig -d` with this place on the bus."
        )
