"""A private endpoint for tests: an API server on a Unix socket, and stand-ins for AWS and its session plugin.

No TCP connection reaches the server: only the stand-in of session-manager-plugin knows the socket. It is
started like the real one: the session in its environment, the request as its fifth argument. What happens is
recorded in one file, in order.
"""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

from tests.kube.certificates import Authority

HOST = "localhost"
"""The name in the server's certificate, as the endpoint's name is in that of EKS."""

CLUSTER = "atlas-dev-use1"
TOKEN = "secret-token-of-the-session"
SYSTEM_NODE, GPU_NODE = "i-0123456789abcdef0", "i-00000000000000001"

_PLUGIN = """#!{python}
import json, os, socket, sys, threading
if sys.argv[1:] == ["--version"]:
    print("{version}")
    sys.exit()
def record(what):
    with open({events!r}, "a") as file:
        file.write(what + "\\n")
variable, region, operation, profile, request, endpoint = sys.argv[1:]
session = json.loads(os.environ.pop(variable))
assert operation == "StartSession" and session["TokenValue"] == {token!r} and {token!r} not in str(sys.argv)
asked = json.loads(request)
port = int(asked["Parameters"]["localPortNumber"][0])
record(f"plugin starts {{os.getpid()}}")
if {broken!r}:
    sys.exit("the port is taken")
def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    for each in (source, sink):
        try:
            each.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
with socket.create_server(("127.0.0.1", port)) as server:
    record(f"port opens to {{asked['Parameters']['host'][0]}}:{{asked['Parameters']['portNumber'][0]}}")
    while True:
        near, _ = server.accept()
        far = socket.socket(socket.AF_UNIX)
        try:
            far.connect({server!r})
        except OSError:
            near.close()
            continue
        for pair in ((near, far), (far, near)):
            threading.Thread(target=pump, args=pair, daemon=True).start()
"""


@dataclass
class WayIn:
    """The private endpoint with what leads to it. `online` are the nodes with an agent online, in turn."""

    folder: Path
    port: int
    nodes: list[tuple[str, str]] = field(
        default_factory=lambda: [
            (GPU_NODE, f"{CLUSTER}-sweep-7654321"),
            (SYSTEM_NODE, f"{CLUSTER}-system-1234567"),
        ]
    )
    online: list[set[str]] = field(default_factory=lambda: [{SYSTEM_NODE, GPU_NODE}])
    refuse: str = ""

    def __post_init__(self) -> None:
        self.authority = Authority(self.folder)
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        self._api = _unix_server(self.folder / "api.sock", self)
        self._aws = ThreadingHTTPServer(("127.0.0.1", 0), type("Aws", (_Aws,), {"way": self}))
        for server in (self._api, self._aws):
            threading.Thread(target=server.serve_forever, daemon=True).start()
        self.install_plugin()

    @property
    def environment(self) -> dict[str, str]:
        """What programs need to find the stand-ins."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._aws.server_port}",
            "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "example",
            "XDG_RUNTIME_DIR": str(self.folder),
            "PATH": os.pathsep.join([str(self.bin), str(Path(sys.executable).parent), os.environ["PATH"]]),
        }

    def install_plugin(self, *, version: str = "1.2.650.0", broken: bool = False) -> None:
        """Put the plugin on PATH; a `broken` one ends at once."""
        text = _PLUGIN.format(
            python=sys.executable,
            version=version,
            events=str(self.folder / "events"),
            token=TOKEN,
            broken=broken,
            server=str(self.folder / "api.sock"),
        )
        program = self.bin / "session-manager-plugin"
        program.write_text(text)
        program.chmod(0o755)

    def record(self, what: str) -> None:
        with (self.folder / "events").open("a") as file:
            file.write(f"{what}\n")

    @property
    def events(self) -> list[str]:
        """What has happened so far, in order."""
        file = self.folder / "events"
        return file.read_text().splitlines() if file.exists() else []

    def plugins(self) -> list[int]:
        """The processes of all sessions so far."""
        return [int(each.rpartition(" ")[2]) for each in self.events if each.startswith("plugin starts")]

    def is_open(self) -> bool:
        """Whether anything listens on the port."""
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def close(self) -> None:
        for server in (self._api, self._aws):
            server.shutdown()
            server.server_close()


def free_port() -> int:
    """A port that nothing uses."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class _UnixServer(ThreadingHTTPServer):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "api", 0

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        connection, _ = self.socket.accept()
        return connection, ("unix", 0)

    def handle_error(self, request: object, client_address: object) -> None:
        """A probe that only shakes hands is no error."""


def _unix_server(path: Path, way: WayIn) -> ThreadingHTTPServer:
    certificate, key = way.authority.issue("server", "kube-apiserver")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    server = _UnixServer(str(path), type("Api", (_Api,), {"way": way}))  # type: ignore[arg-type]
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return server


class _Api(BaseHTTPRequestHandler):
    way: WayIn

    def do_GET(self) -> None:
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        known = kind == "Bearer" and token.startswith("k8s-aws-v1.")
        self.way.record(f"API answers {self.path} {'with' if known else 'without'} a token")
        body = b"ok"
        self.send_response(200 if known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Aws(BaseHTTPRequestHandler):
    """EC2, Systems Manager and STS, as far as a way in asks them."""

    way: WayIn

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        target = self.headers.get("X-Amz-Target", "")
        action = target.rpartition(".")[2] or parse_qs(body)["Action"][0]
        asked = json.loads(body) if target else {key: value[0] for key, value in parse_qs(body).items()}
        status, text = getattr(self, re.sub("([A-Z])", r"_\1", action).lower())(asked)
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1" if target else "text/xml")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _describe_instances(self, asked: dict[str, str]) -> tuple[int, str]:
        assert asked["Filter.1.Value.1"] == CLUSTER
        items = "".join(
            f"<item><instancesSet><item><instanceId>{node}</instanceId><tagSet><item>"
            f"<key>eks:nodegroup-name</key><value>{group}</value></item></tagSet></item></instancesSet></item>"
            for node, group in self.way.nodes
        )
        space = "http://ec2.amazonaws.com/doc/2016-11-15/"
        return 200, (
            f'<DescribeInstancesResponse xmlns="{space}"><reservationSet>{items}</reservationSet>'
            "</DescribeInstancesResponse>"
        )

    def _describe_instance_information(self, asked: dict[str, object]) -> tuple[int, str]:
        now = self.way.online.pop(0) if len(self.way.online) > 1 else self.way.online[0]
        self.way.record(f"{len(now)} nodes online")
        return 200, json.dumps(
            {
                "InstanceInformationList": [
                    {"InstanceId": node, "PingStatus": "Online"} for node in sorted(now)
                ]
            }
        )

    def _start_session(self, asked: dict[str, object]) -> tuple[int, str]:
        if self.way.refuse:
            return 400, json.dumps({"__type": self.way.refuse, "message": "not allowed"})
        key = self.headers["Authorization"].partition("Credential=")[2].partition("/")[0]
        self.way.record(f"session through {asked['Target']} as {key} with {asked['DocumentName']}")
        return 200, json.dumps({"SessionId": "s-1", "TokenValue": TOKEN, "StreamUrl": "wss://ssm.test/s-1"})

    def _terminate_session(self, asked: dict[str, object]) -> tuple[int, str]:
        self.way.record(f"session {asked['SessionId']} ends")
        return 200, json.dumps({"SessionId": asked["SessionId"]})

    def _assume_role(self, asked: dict[str, str]) -> tuple[int, str]:
        self.way.record(f"role {asked['RoleArn']} as {asked['RoleSessionName']}")
        return 200, (
            '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>'
            f"<AccessKeyId>ASIA{asked['RoleArn'].rpartition('/')[2].upper()}</AccessKeyId>"
            "<SecretAccessKey>x</SecretAccessKey><SessionToken>y</SessionToken>"
            "<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
        )
