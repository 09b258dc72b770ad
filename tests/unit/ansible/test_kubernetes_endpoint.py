"""haproxy's responses to clients of the Kubernetes API, with the role's configuration."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.programs import find_program
from tests.unit.ansible.rendering import Site
from tests.unit.ansible.test_kubernetes_files import files, fleet

pytestmark = pytest.mark.daemon


class Api(BaseHTTPRequestHandler):
    """An API server that only reports that it is ready, after `late_s`."""

    late_s = 0.0

    def do_GET(self) -> None:
        time.sleep(self.late_s)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """No log."""


@contextmanager
def living(late_s: float = 0) -> Iterator[int]:
    """The port of a responding member."""
    api = type("LateApi", (Api,), {"late_s": late_s})
    with ThreadingHTTPServer(("127.0.0.1", 0), api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@contextmanager
def lost() -> Iterator[int]:
    """The port of a member without power: no response, as from a full queue."""
    with ExitStack() as kept:
        server = kept.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = kept.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield server.getsockname()[1]


@contextmanager
def proxied(text: str, folder: Path) -> Iterator[int]:
    """The port of a haproxy with a configuration that has PORT for it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    config = folder / "haproxy.cfg"
    config.write_text(text.replace("PORT", str(port)))
    process = subprocess.Popen([find_program("haproxy"), "-f", config], stderr=subprocess.PIPE, text=True)
    try:
        # Not by a connection: haproxy would pass that to a member, and send others elsewhere meanwhile.
        deadline = time.monotonic() + 300
        while f":{port:04X} 00000000:0000 0A" not in Path("/proc/net/tcp").read_text():
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.communicate()


def answer(port: int) -> bytes:
    """The end of a client's response."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
        reported = b""
        while part := client.recv(4096):
            reported += part
    return reported[-2:]


def proxy_of(members: Sequence[int], folder: Path) -> str:
    """The role's configuration with ports of this host for members, and PORT for its own."""
    text = files(Site(fleet("1.35"), folder), "kubernetes_endpoint")["/etc/haproxy/haproxy.cfg"].text
    for number, port in enumerate(members, start=1):
        text = text.replace(f"10.90.0.1{number}:6443", f"127.0.0.1:{port}")
    text = text.replace("10.90.0.10:6443 transparent", "127.0.0.1:PORT")
    text = text.replace("user haproxy", "user root").replace("group haproxy", "group root")
    assert "PORT" in text and all(f":{port}\n" in text for port in members)
    return text


@pytest.mark.fresh
def test_another_member_answers_a_client_sent_to_a_lost_member(tmp_path: Path) -> None:
    with lost() as gone, living() as one, living() as other:
        text = proxy_of((gone, one, other), tmp_path)
        # Before any check has failed.
        text = "".join(line for line in text.splitlines(True) if "default-server check" not in line)
        with proxied(text, tmp_path) as port:
            assert [answer(port) for _ in range(4)] == [b"ok"] * 4


def test_connection_to_a_member_that_answers_late_stays(tmp_path: Path) -> None:
    with living(late_s=5) as port_of_api:
        text = proxy_of((port_of_api,) * 3, tmp_path)
        # Checks without TLS, of which the first failure counts.
        text = text.replace(" check-ssl verify none", "").replace("fall 3", "fall 1")
        assert "fall 1" in text
        with proxied(text, tmp_path) as port:
            assert answer(port) == b"ok"
