"""A management controller by IPMI 2.0, with ipmitool, for controllers without Redfish.

The password is in the environment of ipmitool (`-E`), never in its arguments. Authentication and
encryption are cipher suite 17 (HMAC-SHA256, AES-128): older suites can be broken by an eavesdropper.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable

from ansible_collections.gpufleet.rack.plugins.module_utils.outcome import RefusalError

DEVICES = {"pxe": "pxe", "disk": "disk", "cd": "cdrom"}
SELECTED = {"Force PXE": "pxe", "Force Boot from default Hard-Drive": "disk", "Force Boot from CD/DVD": "cd"}
"""Device names in `chassis bootparam get 5` (lib/ipmi_chassis.c of ipmitool 1.8.19)."""
NO_COMMAND = "Invalid command"
"""Completion code C1h in ipmitool: the controller does not know the command."""
NO_SESSION = "Check its address, `management.user` and the secret of the site (GPUFLEET_SECRET_BMC_PASSWORD)."
NO_PASSWORD = frozenset({"IPMI_PASSWORD", "IPMITOOL_PASSWORD"})


class Ipmi:
    """Reads and changes of a node."""

    def __init__(self, host: str, port: int, user: str, password: str, timeout_s: int = 60) -> None:
        self.name = f"{host}:{port}"
        self._words = ["ipmitool", "-I", "lanplus", "-C", "17", "-H", host, "-p", str(port), "-U", user, "-E"]
        kept = {name: value for name, value in os.environ.items() if name not in NO_PASSWORD}
        self._environment = kept | {"IPMITOOL_PASSWORD": password, "LC_ALL": "C.UTF-8"}
        self._timeout_s = timeout_s

    def ask(self, *words: str) -> str:
        """The output of a command. Raises RefusalError."""
        try:
            done = subprocess.run(
                [*self._words, *words],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=self._timeout_s,
            )
        except FileNotFoundError:
            raise RefusalError(
                "ipmitool is not installed where Ansible runs. Install it, or use Redfish."
            ) from None
        except subprocess.TimeoutExpired:
            raise RefusalError(
                f"{self.name} does not answer by IPMI. Check its address and its cable."
            ) from None
        if done.returncode:
            text = " ".join(done.stderr.split())[:300]
            # Only without a session: user and password are correct if a command is refused.
            remedy = f" {NO_SESSION}" if "session" in text else ""
            raise RefusalError(f"{self.name}: ipmitool {' '.join(words)}: {text or done.returncode}.{remedy}")
        return done.stdout

    def systems(self) -> list[dict[str, str]]:
        """`{path, model, serial}` of the only system that it manages."""
        fields = parsed(self.ask("fru", "print", "0"))
        serial = fields.get("Product Serial") or fields.get("Chassis Serial", "")
        return [{"path": "", "model": fields.get("Product Name", ""), "serial": serial}]

    def power(self, _path: str) -> str:
        """`On` or `Off`."""
        return "On" if "is on" in self.ask("chassis", "power", "status") else "Off"

    def firmware(self, _wanted: Iterable[str]) -> dict[str, str]:
        """The version of the controller, as `bmc`."""
        return {"bmc": parsed(self.ask("mc", "info")).get("Firmware Revision", "")}

    def power_cap(self, _path: str) -> tuple[int | None, str]:
        """The cap in W (None: none), and that DCMI has it; empty if the controller has no DCMI."""
        try:
            text = self.ask("dcmi", "power", "get_limit")
        except RefusalError as error:
            if NO_COMMAND in str(error):
                return None, ""
            raise
        limit = re.search(r"Power Limit:\s*(\d+)\s*Watts", text)
        on = "Power Limit Active" in text
        return (int(limit[1]) if limit and on else None), "dcmi"

    def set_power_cap(self, _resource: str, cap: int) -> None:
        """Set and enable the power cap."""
        self.ask("dcmi", "power", "set_limit", "limit", str(cap))
        self.ask("dcmi", "power", "activate")

    def boot_order(self, _path: str, wanted: list[str]) -> tuple[list[str], list[str], str]:
        """The persistent first boot device now, the wanted one, and that it can be changed."""
        text = self.ask("chassis", "bootparam", "get", "5")
        device = re.search(r"Boot Device Selector : (.+)", text)
        lasting = "apply to all future boots" in text
        now = SELECTED.get(device[1].strip(), device[1].strip()) if device and lasting else "none"
        return [now], wanted[:1], "bootdev"

    def set_boot_order(self, _resource: str, order: list[str]) -> None:
        """Set the first device for all boots, with UEFI."""
        self.ask("chassis", "bootdev", DEVICES[order[0]], "options=persistent,efiboot")

    def bios(self, _path: str) -> tuple[dict[str, str], dict[str, str], str]:
        """IPMI has no such setting."""
        return {}, {}, ""

    def stage_bios(self, _resource: str, _attributes: object) -> None:
        """IPMI has no such setting."""
        raise RefusalError("IPMI has no BIOS settings. Use Redfish, or remove `management.bios`.")

    def cycle(self, path: str) -> str:
        """Power cycle, or power on."""
        verb = "cycle" if self.power(path) == "On" else "on"
        self.ask("chassis", "power", verb)
        return verb

    def close(self) -> None:
        """Nothing to close."""


def parsed(text: str) -> dict[str, str]:
    """Parse lines of `name : value`."""
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}
