"""OpenIPMI's BMC simulator (`ipmi_sim`) on loopback, used through ipmitool.

Not simulated: DCMI, a persistent boot device (it keeps the device and drops the flags), and
cipher suites with SHA-256 (lanserv of OpenIPMI 2.0.33 has SHA-1 and MD5). So the ipmitool that is first on
PATH here uses suite 3 instead of 17, and is the system's otherwise.
"""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

from tests.redfish_server import USER

# At most 16 letters.
PASSWORD = "planted-Ipmi-Pw0"
MODEL, SERIAL, FIRMWARE = "DGXH100", "1660224000001", "24.09"
SUITE_3 = """\
for word in "$@"; do
  shift
  [ "$word" = 17 ] && word=3
  set -- "$@" "$word"
done
exec /usr/bin/ipmitool "$@"
"""
# Program that the simulator runs to read and change the chassis (ipmi_lan(5), chassis_control). It records
# a request after it is done: a reader of the record then gets the new state.
CHASSIS = """\
#!/bin/sh
code=0
case "$2 $3" in
"get power") echo "power:$(cat {folder}/power)";;
"get boot") echo "boot:$(cat {folder}/boot)";;
"set power") echo "$4" >{folder}/power;;
"set boot") echo "$4" >{folder}/boot;;
*) code=1;;
esac
echo "$2 $3 $4" >>{folder}/asked
exit $code
"""
# Without a GUID it supports only IPMI 1.5.
SETTINGS = """\
name "bmc"
set_working_mc 0x20
startlan 1
  addr 127.0.0.1 {port}
  priv_limit admin
  allowed_auths_admin md5
  guid a123456789abcdefa123456789abcdef
endlan
chassis_control "{folder}/chassis 0x20"
user 2 true "{user}" "{password}" admin 10 md5
"""
# Device id, revision and support as in OpenIPMI's example; the firmware version is chosen.
CONTROLLER = """\
mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 {major} {minor} 0x9f 0x1291 0xf02
mc_add_fru_data 0x20 0 256 file 0 "{folder}/fru"
mc_enable 0x20
"""


def fru() -> bytes:
    """An inventory with a product area (Platform Management FRU Information Storage Definition 1.0)."""

    def field(text: str) -> bytes:
        return bytes([0xC0 | len(text)]) + text.encode()

    def summed(raw: bytes) -> bytes:
        return raw + bytes([-sum(raw) & 0xFF])

    names = b"".join(map(field, ("NVIDIA", MODEL, "920-23687", "1", SERIAL, "", "")))
    body = b"\0" + names + b"\xc1"
    eights = (len(body) + 3 + 7) // 8
    product = summed((bytes([1, eights]) + body).ljust(eights * 8 - 1, b"\0"))
    return (summed(bytes([1, 0, 0, 0, 1, 0, 0])) + product).ljust(256, b"\0")


class Simulator:
    """The simulator while it runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        major, _, minor = FIRMWARE.partition(".")
        words = {
            "folder": folder,
            "port": self.port,
            "user": USER,
            "password": PASSWORD,
            "major": major,
            "minor": int(minor),
        }
        (folder / "state").mkdir()
        (folder / "fru").write_bytes(fru())
        (folder / "asked").touch()
        self.power = True
        self._write("boot", "default")
        self._write("settings", SETTINGS.format(**words))
        self._write("controller", CONTROLLER.format(**words))
        self._write("chassis", CHASSIS.format(**words))
        (folder / "chassis").chmod(0o755)
        self._log = (folder / "log").open("w")
        self._process = subprocess.Popen(
            ["ipmi_sim", "-n", "-c", "settings", "-f", "controller", "-s", "state"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        end = time.monotonic() + 120
        while not self._listens():
            assert time.monotonic() < end and self._process.poll() is None, (folder / "log").read_text()
            time.sleep(0.02)

    def _listens(self) -> bool:
        # A datagram to a closed port would end ipmitool.
        return f":{self.port:04X} " in Path("/proc/net/udp").read_text()

    def _write(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text)

    @property
    def power(self) -> bool:
        """Whether the node is on."""
        return (self._folder / "power").read_text().strip() == "1"

    @power.setter
    def power(self, on: bool) -> None:
        self._write("power", f"{int(on)}\n")

    @property
    def changes(self) -> list[str]:
        """Requests to the chassis: `set power 0`, `set boot pxe`."""
        return [line for line in (self._folder / "asked").read_text().splitlines() if line.startswith("set ")]

    def wait_for(self, *changes: str) -> None:
        """Wait until exactly these requests were made."""
        end = time.monotonic() + 120
        while self.changes != list(changes):
            assert time.monotonic() < end, self.changes
            time.sleep(0.05)

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()
        self._log.close()
