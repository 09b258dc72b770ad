"""BMCs of a rack's nodes: Redfish on loopback, whose resets cut the power of a node.

A fleet file has host names of BMCs. Runs get their own hosts file, in their own mount
namespace: that of this machine does not change.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from pathlib import Path

from gpufleet.lab.rack import Rack
from tests.redfish_server import CHASSIS, SYSTEM, USER, Service, node

SECRET = "GPUFLEET_SECRET_BMC_PASSWORD_LAB"
SET = [("PATCH", f"{CHASSIS}/EnvironmentMetrics"), ("PATCH", SYSTEM)]
"""Changes by a first run on each BMC of `fleet`; nothing else ever changes."""
FLEET = """\
    bmc: bmc[01-{last:02d}]
    management:
      user: {user}
      port: {port}
      power_cap: 9 kW
      boot_order: [disk, pxe]
      firmware: {{ HostBMC_0: "24.09.17" }}
      serials: {serials}
      certificates: {certificates}
"""


class Controllers:
    """One BMC per node, each on its own loopback address and all on one port."""

    def __init__(self, folder: Path, nodes: Sequence[str]) -> None:
        self.password = secrets.token_hex(16)
        self.of: dict[str, Service] = {}
        self._cycles: list[threading.Thread] = []
        port = 0
        lines = []
        for number, name in enumerate(nodes, start=1):
            (folder / name).mkdir(parents=True)
            address = f"127.0.0.{number}"
            lines.append(f"{address} bmc{number:02d}.lab.example.com\n")
            self.of[name] = Service(
                folder / name,
                node(serial=f"16602240000{number:02d}"),
                address=address,
                port=port,
                password=self.password,
            )
            port = self.of[name].port
        self.port = port
        self.hosts = folder / "hosts"
        self.hosts.write_text(Path("/etc/hosts").read_text() + "".join(lines))

    @property
    def fleet(self) -> str:
        """The BMCs in the fleet file, for `fleet_text(more=...)`."""

        def mapping(values: dict[str, str]) -> str:
            return "{ " + ", ".join(f'{name}: "{value}"' for name, value in values.items()) + " }"

        return FLEET.format(
            last=len(self.of),
            user=USER,
            port=self.port,
            serials=mapping(
                {name: str(each.resources[SYSTEM]["SerialNumber"]) for name, each in self.of.items()}
            ),
            certificates=mapping({name: each.fingerprint for name, each in self.of.items()}),
        )

    def wire(self, rack: Rack) -> None:
        """From here on a reset cuts the power of the node and restores it."""
        for name, service in self.of.items():
            service.on_reset = lambda name=name: self._cycle(rack, name)  # type: ignore[misc]

    def _cycle(self, rack: Rack, name: str) -> None:
        def act() -> None:
            rack.stop(name, force=True)
            rack.start(name)

        # A BMC answers at once: the power goes off afterwards.
        self._cycles.append(threading.Thread(target=act, name=f"power of {name}"))
        self._cycles[-1].start()

    @property
    def resets(self) -> dict[str, list[str]]:
        """Node -> reset type, for power-cycled nodes."""
        return {name: service.resets for name, service in self.of.items() if service.resets}

    def settled(self) -> None:
        """Wait until all power-cycled nodes are up."""
        while self._cycles:
            self._cycles.pop().join()

    def command(self, words: Sequence[str]) -> list[str]:
        """A command that resolves their names."""
        bound = 'mount --bind "$0" /etc/hosts && exec "$@"'
        return ["unshare", "--mount", "--propagation", "slave", "sh", "-c", bound, str(self.hosts), *words]

    def close(self) -> None:
        """Stop them."""
        self.settled()
        for service in self.of.values():
            service.close()
