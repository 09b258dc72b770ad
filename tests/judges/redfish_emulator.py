"""OpenStack's Redfish emulator (sushy-tools) as the BMC of one node, on loopback with HTTPS.

    python -m tests.judges.redfish_emulator PEM AUTHENTICATION

It prints its port, and each request on standard error. Routes, documents and passwords are the emulator's.
Two features missing in its fake driver are added: BIOS attributes, which only its libvirt driver
has, and power that changes at once instead of after a random 1 to 11 s.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import ssl
import subprocess
import sys
import warnings
from base64 import b64encode
from pathlib import Path
from typing import Any

from tests.redfish_server import PASSWORD, USER, certificate, fingerprint

ATTRIBUTES = {"BootMode": "Uefi", "ProcTurboMode": "Enabled", "EmbeddedSata": "Raid"}
NODE = {"uuid": "27946b59-9e44-4fa7-8e91-f3527a1ef094", "name": "node", "power_state": "On", "nics": []}
# The chassis of the only system (templates/chassis.json of sushy-tools).
MODEL, SERIAL = "3500RX", "437XR1138R2"


def serve(pem: str, authentication: str) -> None:
    """Serves until it is ended."""
    # It requests TLS 1.2 by a name that Python has removed.
    warnings.simplefilter("ignore", DeprecationWarning)
    from sushy_tools.emulator import main as emulator
    from sushy_tools.emulator.resources.systems import fakedriver
    from werkzeug.serving import make_server

    attributes = dict(ATTRIBUTES)
    driver: Any = fakedriver.FakeDriver
    driver.get_bios = lambda _self, _identity: dict(attributes)
    driver.set_bios = lambda _self, _identity, given: attributes.update(given)
    fakedriver.random.randint = lambda _least, _most: 0
    emulator.app.configure(
        extra_config={
            "SUSHY_EMULATOR_FAKE_DRIVER": True,
            "SUSHY_EMULATOR_FAKE_SYSTEMS": [NODE],
            "SUSHY_EMULATOR_AUTH_FILE": authentication,
            "SUSHY_EMULATOR_STATE_DIR": str(Path(pem).parent),
        }
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)

    def application(environment: dict[str, Any], start: Any) -> Any:
        print(environment["REQUEST_METHOD"], environment["PATH_INFO"], file=sys.stderr)  # noqa: T201
        return emulator.app(environment, start)

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, application, threaded=True, ssl_context=context)
    print(server.port, flush=True)  # noqa: T201
    server.serve_forever()


class Emulator:
    """The emulator while it runs."""

    def __init__(self, folder: Path) -> None:
        import bcrypt

        self.pem = certificate(folder)
        self.fingerprint = fingerprint(self.pem)
        users = folder / "users"
        users.write_text(f"{USER}:{bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()}\n")
        self._log = folder / "requests.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(self.pem), str(users)],
                cwd=Path(__file__).resolve().parents[2],
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._log.read_text()
        self.port = int(line)

    @property
    def changes(self) -> list[str]:
        """Method and path of all changing requests."""
        lines = self._log.read_text().splitlines()
        return [line for line in lines if line.startswith(("POST ", "PATCH ", "PUT ", "DELETE "))]

    def get(self, path: str) -> dict[str, Any]:
        """A resource, read independently of the code under test."""
        context = ssl.create_default_context(cafile=str(self.pem.parent / "bmc.crt"))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=context)
        try:
            who = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            connection.request("GET", f"/redfish/v1{path}", headers={"Authorization": f"Basic {who}"})
            found: dict[str, Any] = json.loads(connection.getresponse().read())
            return found
        finally:
            connection.close()

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.communicate()


if __name__ == "__main__":
    serve(*sys.argv[1:])
