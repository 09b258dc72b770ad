"""Management controllers of a rack's nodes: Redfish on loopback, whose resets cut a node's power.

A fleet file has names of controllers. Runs that are to find them get a file of hosts of their own, in a mount
namespace of their own: this machine's is left alone.
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
"""What a first run changes on each, of `fleet`; nothing else is ever changed."""
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
    """One controller for each node, each on a loopback address of its own and all on one port."""

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
        """What the fleet file says of them, for `fleet_text(more=...)`."""

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
        """From here on a reset cuts the node's power, and gives it back."""
        for name, service in self.of.items():
            service.on_reset = lambda name=name: self._cycle(rack, name)  # type: ignore[misc]

    def _cycle(self, rack: Rack, name: str) -> None:
        def act() -> None:
            rack.stop(name, force=True)
            rack.start(name)

        # A controller answers at once: the power goes after that.
        self._cycles.append(threading.Thread(target=act, name=f"power of {name}"))
        self._cycles[-1].start()

    @property
    def resets(self) -> dict[str, list[str]]:
        """Node -> how its power was cycled, for nodes of which it was."""
        return {name: service.resets for name, service in self.of.items() if service.resets}

    def settled(self) -> None:
        """Waits until all nodes whose power was cycled are up."""
        while self._cycles:
            self._cycles.pop().join()

    def command(self, words: Sequence[str]) -> list[str]:
        """A command that finds them by their names."""
        bound = 'mount --bind "$0" /etc/hosts && exec "$@"'
        return ["unshare", "--mount", "--propagation", "slave", "sh", "-c", bound, str(self.hosts), *words]

    def close(self) -> None:
        """Ends them."""
        self.settled()
        for service in self.of.values():
            service.close()
