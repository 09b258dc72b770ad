"""RDMA adapters of this host: bus addresses, and the port type set in their firmware."""

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
# In the vital product data of adapters through which Fabric Manager manages NVSwitches (B200, B300): they are
# no fabric adapters, and their ports stay as they are.
BRIDGE_MARK = b"SW_MNG"
KIND_OF_CLASS = {"0x0207": INFINIBAND, "0x0200": ETHERNET}
# Values of LINK_TYPE_P1 and LINK_TYPE_P2; 3 (VPI) is detection.
NUMBERS = {INFINIBAND: "1", ETHERNET: "2"}
# Releases of the tool print `ETH(2)`, `ETH` or `2`.
NUMBER_OF_NAME = {"IB": "1", "ETH": "2", "VPI": "3"}
PLACES = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin:/opt/mellanox/mft/bin"


class Adapter(NamedTuple):
    """A PCI function with one port. `device` is empty without a driver."""

    bus: str
    device: str
    kind: str

    @property
    def parameter(self) -> str:
        """Firmware parameter of its port type: function 0 is port 1."""
        return f"LINK_TYPE_P{int(self.bus.rpartition('.')[2], 16) + 1}"

    def __str__(self) -> str:
        return f"{self.device or 'adapter'} ({self.bus})"


def text_of(path: Path) -> str:
    """The text of a file without its newline, empty if it does not exist."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def manages_nvswitch(function: Path) -> bool:
    """Whether a PCI function is an adapter that manages NVSwitches."""
    try:
        return BRIDGE_MARK in (function / "vpd").read_bytes()
    except OSError:
        return False


def read_adapters(root: Path) -> list[Adapter]:
    """All physical network functions of the vendor, by bus address; not those that manage NVSwitches."""
    devices = {
        (folder / "device").resolve().name: folder for folder in (root / "sys/class/infiniband").glob("*")
    }
    found = []
    for function in sorted((root / "sys/bus/pci/devices").glob("*")):
        kind = KIND_OF_CLASS.get(text_of(function / "class")[:6])
        if text_of(function / "vendor") != MELLANOX or kind is None or (function / "physfn").exists():
            continue
        if kind == INFINIBAND and manages_nvswitch(function):
            continue
        device = devices.get(function.name)
        if device is not None:
            kind = text_of(device / "ports/1/link_layer") or kind
        found.append(Adapter(function.name, device.name if device else "", kind))
    return found


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a slow program: the firmware takes time to answer."""
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
    """The firmware tool: NVIDIA's or the open one."""
    return shutil.which("mlxconfig", path=PLACES) or shutil.which("mstconfig", path=PLACES)


def parse_next(text: str, parameter: str) -> str | None:
    """The next-boot value of a parameter, as a number, from the output of a query."""
    for line in text.splitlines():
        words = line.replace("*", " ").split()
        if words[:1] == [parameter]:
            found = re.search(r"^\(?(\d)\)?$|\((\d)\)$", words[-1])
            return (found[1] or found[2]) if found else NUMBER_OF_NAME.get(words[-1])
    return None


def query_next(tool: str, adapter: Adapter) -> str | None:
    """The port type after the next boot, as a number; None for an adapter with a fixed type."""
    done = run(tool, "-d", adapter.bus, "query", adapter.parameter)
    return parse_next(done.stdout, adapter.parameter) if done.returncode == 0 else None


def set_kind(tool: str, adapter: Adapter, kind: str) -> None:
    """Set a firmware parameter; raises with the output of the program."""
    done = run(tool, "-y", "-d", adapter.bus, "set", f"{adapter.parameter}={NUMBERS[kind]}")
    if done.returncode:
        raise RefusalError(
            f"{adapter} is {adapter.kind}, the fabric is {kind}, and its firmware did not take "
            f"{adapter.parameter}={NUMBERS[kind]}: {(done.stderr or done.stdout).strip()[-300:]} Adapters "
            "of one kind only have to be replaced; for others see `mlxconfig -d` with this place on the bus."
        )
