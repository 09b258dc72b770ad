"""A Redfish service over HTTPS for tests: the BMC of one node, strict in what it accepts.

The resources and their properties are those of DMTF's schemas (DSP8010: ComputerSystem, BootOption, Bios,
SoftwareInventory, Power, EnvironmentMetrics). Writes that a schema does not allow are refused with the
registry's own messages, as are a changed ETag, an unknown reset and a wrong password.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import ssl
import subprocess
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SYSTEM = "/redfish/v1/Systems/DGX"
CHASSIS = "/redfish/v1/Chassis/DGX"
BIOS = f"{SYSTEM}/Bios"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
APPLY = "@Redfish.SettingsApplyTime"
USER, PASSWORD = "admin", "planted-Bmc-Passw0rd"
# Writable properties by @odata.type without its version (readonly false in the schemas).
WRITABLE: dict[str, Any] = {
    "ComputerSystem": {
        "Boot": {"BootOrder": [str], "BootSourceOverrideTarget": str, "BootSourceOverrideEnabled": str}
    },
    "Power": {"PowerControl": [{"PowerLimit": {"LimitInWatts": int}}]},
    "EnvironmentMetrics": {"PowerLimitWatts": {"SetPoint": int, "ControlMode": str}},
}


def certificate(folder: Path) -> Path:
    """A self-signed key and certificate for 127.0.0.1, in one file."""
    path = folder / "bmc.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-days", "36500", "-subj", "/CN=bmc", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(path), "-out", str(folder / "bmc.crt")),
        ],
        check=True,
        capture_output=True,
    )
    path.write_text(path.read_text() + (folder / "bmc.crt").read_text())
    return path


def fingerprint(pem: Path) -> str:
    """SHA-256 of the certificate from `certificate`."""
    text = (pem.parent / "bmc.crt").read_text()
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(text)).hexdigest()


def node(serial: str = "1660224000001", model: str = "DGXH100") -> dict[str, dict[str, Any]]:
    """The resources of a running DGX H100, with a cap in EnvironmentMetrics and a boot order."""

    def collection(path: str, *names: str) -> dict[str, Any]:
        return {"@odata.id": path, "Members": [{"@odata.id": f"{path}/{name}"} for name in names]}

    found: dict[str, dict[str, Any]] = {
        "/redfish/v1/": {
            "@odata.type": "#ServiceRoot.v1_15_0.ServiceRoot",
            "Systems": {"@odata.id": "/redfish/v1/Systems"},
            "UpdateService": {"@odata.id": "/redfish/v1/UpdateService"},
        },
        "/redfish/v1/Systems": collection("/redfish/v1/Systems", "HGX_Baseboard_0", "DGX"),
        "/redfish/v1/Systems/HGX_Baseboard_0": {
            "@odata.id": "/redfish/v1/Systems/HGX_Baseboard_0",
            "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem",
            "Model": "HGX H100 8 GPU",
            "SerialNumber": "1570000000001",
        },
        SYSTEM: {
            "@odata.id": SYSTEM,
            "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem",
            "Model": model,
            "SerialNumber": serial,
            "PowerState": "On",
            "Bios": {"@odata.id": BIOS},
            "Boot": {
                "BootOrder": ["Boot0003", "Boot0001", "Boot0002"],
                "BootOptions": {"@odata.id": f"{SYSTEM}/BootOptions"},
            },
            "Links": {"Chassis": [{"@odata.id": CHASSIS}]},
            "Actions": {
                "#ComputerSystem.Reset": {
                    "target": RESET,
                    "ResetType@Redfish.AllowableValues": ["On", "ForceOff", "ForceRestart", "PowerCycle"],
                }
            },
        },
        f"{SYSTEM}/BootOptions": collection(f"{SYSTEM}/BootOptions", "1", "2", "3"),
        BIOS: {
            "@odata.id": BIOS,
            "@odata.type": "#Bios.v1_2_1.Bios",
            "Attributes": {"SriovEnable": "Disabled", "NumaNodes": 4, "QuietBoot": True},
            "@Redfish.Settings": {"SettingsObject": {"@odata.id": f"{BIOS}/SD"}},
        },
        f"{BIOS}/SD": {"@odata.id": f"{BIOS}/SD", "@odata.type": "#Bios.v1_2_1.Bios", "Attributes": {}},
        "/redfish/v1/UpdateService": {
            "FirmwareInventory": {"@odata.id": "/redfish/v1/UpdateService/FirmwareInventory"}
        },
        "/redfish/v1/UpdateService/FirmwareInventory": collection(
            "/redfish/v1/UpdateService/FirmwareInventory", "HostBMC_0", "HostBIOS_0"
        ),
        CHASSIS: {
            "@odata.id": CHASSIS,
            "EnvironmentMetrics": {"@odata.id": f"{CHASSIS}/EnvironmentMetrics"},
        },
        f"{CHASSIS}/EnvironmentMetrics": {
            "@odata.id": f"{CHASSIS}/EnvironmentMetrics",
            "@odata.type": "#EnvironmentMetrics.v1_3_0.EnvironmentMetrics",
            "PowerLimitWatts": {"SetPoint": 10200, "ControlMode": "Disabled"},
        },
    }
    for number, alias in ((1, "Hdd"), (2, "UefiHttp"), (3, "Pxe")):
        path = f"{SYSTEM}/BootOptions/{number}"
        found[path] = {"@odata.id": path, "BootOptionReference": f"Boot000{number}", "Alias": alias}
    for name, version in (("HostBMC_0", "24.09.17"), ("HostBIOS_0", "1.6.7")):
        path = f"/redfish/v1/UpdateService/FirmwareInventory/{name}"
        found[path] = {"@odata.id": path, "Id": name, "Name": f"Software {name}", "Version": version}
    return found


class Service:
    """The running service; `requests` has all requests, `changes` those that write."""

    def __init__(
        self,
        folder: Path,
        resources: dict[str, dict[str, Any]] | None = None,
        *,
        address: str = "127.0.0.1",
        port: int = 0,
        password: str = PASSWORD,
    ) -> None:
        self.password = password
        self.resources = resources if resources is not None else node()
        self.requests: list[tuple[str, str, str]] = []
        self.resets: list[str] = []
        self.on_reset: Callable[[], None] = lambda: None
        self.pem = certificate(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.pem)
        self._server = ThreadingHTTPServer((address, port), handler(self))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of its certificate."""
        return fingerprint(self.pem)

    @property
    def changes(self) -> list[tuple[str, str]]:
        """Method and path of all changing requests."""
        return [(verb, path) for verb, path, _ in self.requests if verb != "GET"]

    def boot(self) -> None:
        """Boot the node: staged settings take effect."""
        staged = self.resources[f"{BIOS}/SD"]
        # With apply times, values without one stay staged for ever.
        if "SupportedApplyTimes" in self.resources[BIOS]["@Redfish.Settings"] and not staged.pop(APPLY, None):
            return
        self.resources[BIOS]["Attributes"] |= staged["Attributes"]
        staged["Attributes"] = {}

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def handler(service: Service) -> type[BaseHTTPRequestHandler]:
    """The handler of a service."""
    wanted = "Basic " + base64.b64encode(f"{USER}:{service.password}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def answer(self, status: int, body: Any = None, etag: str = "") -> None:
            raw = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            if etag:
                self.send_header("ETag", etag)
            self.end_headers()
            self.wfile.write(raw)

        def refuse(self, status: int, message: str) -> None:
            info = [{"MessageId": "Base.1.17.0", "Message": message}]
            self.answer(status, {"error": {"message": "See ExtendedInfo", "@Message.ExtendedInfo": info}})

        def read(self) -> Any:
            length = int(self.headers.get("Content-Length") or 0)
            return json.loads(self.rfile.read(length)) if length else {}

        def known(self, verb: str) -> dict[str, Any] | None:
            body = self.read()
            service.requests.append((verb, self.path, self.headers.get("Authorization", "")))
            self.body = body
            if self.headers.get("Authorization") != wanted:
                self.refuse(401, "While accessing the resource, the service received an authorization error.")
                return None
            if verb == "POST":
                return {}
            found = service.resources.get(self.path)
            if found is None:
                self.refuse(404, f"The resource at the URI '{self.path}' was not found.")
            return found

        def do_GET(self) -> None:
            found = self.known("GET")
            if found is not None:
                self.answer(200, found, tag(found))

        def do_PATCH(self) -> None:
            found = self.known("PATCH")
            if found is None:
                return
            if self.headers.get("If-Match") != tag(found):
                self.refuse(412, "The ETag supplied did not match the ETag of the resource.")
                return
            kind = str(found.get("@odata.type", "")).lstrip("#").split(".")[0]
            allowed = WRITABLE.get(kind, {})
            if kind == "Bios":
                bios = service.resources[BIOS]["Attributes"]
                # The attributes are there for reading; what is written goes to the settings object.
                allowed = {"Attributes": {n: type(v) for n, v in bios.items()}} if self.path != BIOS else {}
                if "SupportedApplyTimes" in service.resources[BIOS]["@Redfish.Settings"]:
                    allowed[APPLY] = {"ApplyTime": str}
            if why := unwritable(self.body, allowed, ""):
                self.refuse(400, why)
                return
            merge(found, self.body)
            self.answer(204)

        def do_POST(self) -> None:
            if self.known("POST") is None:
                return
            kind = self.body.get("ResetType")
            action = service.resources[SYSTEM]["Actions"]["#ComputerSystem.Reset"]
            kinds = action.get("ResetType@Redfish.AllowableValues", ["PowerCycle"])
            if self.path != RESET or kind not in kinds:
                self.refuse(400, f"The value '{kind}' for the parameter ResetType is not in the list.")
                return
            service.resets.append(kind)
            service.resources[SYSTEM]["PowerState"] = "On"
            service.boot()
            service.on_reset()
            self.answer(204)

    return Handler


def tag(resource: dict[str, Any]) -> str:
    """Changes with the resource."""
    return f'"{hashlib.sha256(json.dumps(resource, sort_keys=True).encode()).hexdigest()[:16]}"'


def unwritable(body: Any, allowed: Any, where: str) -> str:
    """Properties of a request that the schema does not allow to write; empty if there are none."""
    if isinstance(allowed, type):
        right = isinstance(body, allowed) and (allowed is bool or not isinstance(body, bool))
        return "" if right else f"The value {body!r} for the property {where} is of a different type."
    if isinstance(allowed, list):
        if not isinstance(body, list):
            return f"The property {where} is an array."
        return next((why for item in body if (why := unwritable(item, allowed[0], where))), "")
    if not isinstance(body, dict):
        return f"The property {where} is an object."
    for name, value in body.items():
        if name not in allowed:
            return f"The property {name} is a read-only property or unknown and cannot be assigned a value."
        if why := unwritable(value, allowed[name], name):
            return why
    return ""


def merge(resource: dict[str, Any], body: dict[str, Any]) -> None:
    """As PATCH changes a resource: objects by property, arrays by place."""
    for name, value in body.items():
        there = resource.get(name)
        if isinstance(value, dict) and isinstance(there, dict):
            merge(there, value)
        elif isinstance(value, list) and value and isinstance(value[0], dict) and isinstance(there, list):
            for old, new in zip(there, value, strict=False):
                merge(old, new)
        else:
            resource[name] = copy.deepcopy(value)
