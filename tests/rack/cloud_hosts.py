"""Hosts of a rack as instances of the emulated AWS: a launch boots one, a termination cuts its power.

The rack's network gets what an instance has in AWS: the metadata service at 169.254.169.254, and a way to the
API. Instances and hosts belong together by their address.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3

from gpufleet.lab.aws import daemon
from gpufleet.lab.aws.credentials import ACCESS_KEY_ID, SECRET_ACCESS_KEY, sandbox_env
from gpufleet.lab.aws.server.process import Files
from gpufleet.lab.rack import Rack
from gpufleet.lab.rack.container import BRIDGE
from tests.rack.lab import Lab

METADATA = "169.254.169.254"
API = "aws.localhost"
"""The name of the API on hosts: the emulated AWS answers loopback names only."""

PORT = 8080
REGION = "us-east-1"
_NEWNET = 0x40000000


class Instances:
    """The instances of one account, and the rack's hosts that stand for them."""

    def __init__(self, lab: Lab, root: Path, hosts: dict[str, str], image: str) -> None:
        self._lab = lab
        self._image = image
        self._hosts = hosts
        """Address -> host."""
        self._endpoint = daemon.ensure(root)
        self._root = root
        self._booted: dict[str, str] = {}
        """Host -> instance."""
        self._stop = threading.Event()
        self._clients: dict[str, Any] = {}
        self.boots = True
        """Whether a launched instance comes up; one that does not stays without power."""

    def client(self, service: str) -> Any:
        """A client of the emulated AWS. It is made once: that takes a quarter of a second of a processor."""
        if service not in self._clients:
            self._clients[service] = boto3.session.Session().client(
                service,
                region_name=REGION,
                endpoint_url=self._endpoint.url,
                aws_access_key_id=ACCESS_KEY_ID,
                aws_secret_access_key=SECRET_ACCESS_KEY,
            )
        return self._clients[service]

    def alive(self) -> list[dict[str, Any]]:
        """The instances that are not shutting down."""
        found = self.client("ec2").describe_instances(
            Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        )
        return [each for reservation in found["Reservations"] for each in reservation["Instances"]]

    def faults(self, text: str) -> None:
        """Set the faults of the emulated AWS (docs/guide/faults.md)."""
        Files(self._root).faults.write_text(text)

    @contextmanager
    def up(self) -> Iterator[Instances]:
        """Serve metadata and API in the rack's network, and follow launches and terminations."""
        network = f"ip address replace {METADATA}/32 dev {BRIDGE}"
        enter = ["nsenter", f"--net=/proc/{self._lab.rack.pid}/ns/net", *network.split()]
        subprocess.run(enter, check=True)
        metadata = _Server(listening(self._lab.rack, METADATA, 80), self._tags)
        forward = listening(self._lab.rack, self._lab.rack.site.gateway, PORT)
        threads = [
            threading.Thread(target=metadata.serve_forever, args=(0.1,), daemon=True),
            threading.Thread(target=self._forward, args=(forward,), daemon=True),
            threading.Thread(target=self._follow, daemon=True),
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            metadata.shutdown()
            metadata.server_close()
            # Without it the thread that accepts would keep the port.
            forward.shutdown(socket.SHUT_RDWR)
            forward.close()
            threads[-1].join(60)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of programs that use this account."""
        return sandbox_env(self._endpoint)

    def stop(self) -> None:
        """Stop the emulated AWS."""
        daemon.stop(self._root)

    def _follow(self) -> None:
        while not self._stop.wait(0.5):
            running = {each["PrivateIpAddress"]: each["InstanceId"] for each in self.alive()}
            launched = []
            for address, host in self._hosts.items():
                instance = running.get(address)
                if self._booted.get(host) == instance:
                    continue
                if self._booted.pop(host, None):
                    self._lab.rack.stop(host, force=True)
                if instance:
                    self._booted[host] = instance
                    launched.append(host)
            # Side by side: one that asks a lost controller first takes 40 s.
            if launched and self.boots:
                self._lab.rack.restore(*launched, name=self._image)

    def _tags(self, address: str) -> dict[str, str]:
        """The tags of the instance with that address."""
        for each in self.alive():
            if each["PrivateIpAddress"] == address:
                return {tag["Key"]: tag["Value"] for tag in each.get("Tags", ())}
        return {}

    def _forward(self, server: socket.socket) -> None:
        port = urlsplit(self._endpoint.url).port or 0
        while True:
            try:
                incoming, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=relay, args=(incoming, port), daemon=True).start()


def relay(incoming: socket.socket, port: int) -> None:
    """Pass on what both ends of a connection say, until one of them ends it."""
    with incoming, socket.create_connection(("127.0.0.1", port)) as outgoing:
        other = {incoming: outgoing, outgoing: incoming}
        while True:
            ready, _, _ = select.select([incoming, outgoing], [], [])
            for source in ready:
                try:
                    chunk = source.recv(1 << 16)
                    if not chunk:
                        return
                    other[source].sendall(chunk)
                except OSError:
                    return


def listening(rack: Rack, address: str, port: int) -> socket.socket:
    """A listening socket in the network of a rack, whatever thread accepts on it."""
    made: list[socket.socket] = []

    def listen() -> None:
        space = os.open(f"/proc/{rack.pid}/ns/net", os.O_RDONLY)
        try:
            # Only this thread changes its network, and it ends here.
            if ctypes.CDLL(None, use_errno=True).setns(space, _NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
            made.append(socket.create_server((address, port)))
        finally:
            os.close(space)

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    return made[0]


class _Server(ThreadingHTTPServer):
    """The metadata service, with tokens (IMDSv2) and instance tags only."""

    daemon_threads = True

    def __init__(self, listening: socket.socket, tags: Callable[[str], dict[str, str]]) -> None:
        super().__init__(listening.getsockname(), _Metadata, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.tags = tags


class _Metadata(BaseHTTPRequestHandler):
    server: _Server

    def do_PUT(self) -> None:
        self._answer(200 if self.path == "/latest/api/token" else 404, "a-token")

    def do_GET(self) -> None:
        if self.headers.get("X-aws-ec2-metadata-token") != "a-token":
            self._answer(401, "")
            return
        prefix = "/latest/meta-data/tags/instance/"
        value = self.server.tags(self.client_address[0]).get(self.path.removeprefix(prefix))
        self._answer(404 if value is None or not self.path.startswith(prefix) else 200, value or "")

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
