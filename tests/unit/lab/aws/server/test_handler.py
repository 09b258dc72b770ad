"""Connections of the server: each answers several requests, whatever the one before left unread."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

from gpufleet.lab.aws.credentials import ACCESS_KEY_ID
from gpufleet.lab.aws.faults.inject import Injector
from gpufleet.lab.aws.server.app import SandboxApp
from gpufleet.lab.aws.server.handler import QuietHandler


def _app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Answers with the status in the path; /echo with the body of the request."""
    path = environ["PATH_INFO"].removeprefix("/")
    text = environ["wsgi.input"].read() if path == "echo" else path.encode()
    start_response("200 OK" if path == "echo" else f"{path} Some Phrase", [("Content-Type", "text/plain")])
    return [text[:2], text[2:]]


@pytest.fixture
def connection() -> Iterator[http.client.HTTPConnection]:
    server = make_server("127.0.0.1", 0, _app, threaded=True, request_handler=QuietHandler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    made = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    yield made
    made.close()
    server.shutdown()
    server.server_close()
    thread.join()


def _answer(
    connection: http.client.HTTPConnection, method: str, path: str, body: Any = None
) -> tuple[int, bytes]:
    connection.request(method, path, body)
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_one_connection_answers_all_kinds_of_requests(connection: http.client.HTTPConnection) -> None:
    connection.connect()
    used = connection.sock
    assert _answer(connection, "POST", "/echo", b"all of it") == (200, b"all of it")
    # The application reads none of this body.
    assert _answer(connection, "POST", "/403", b"GET /echo HTTP/1.1\r\n\r\n") == (403, b"403")
    assert _answer(connection, "HEAD", "/404") == (404, b"")
    assert _answer(connection, "DELETE", "/204") == (204, b"")
    assert _answer(connection, "GET", "/500") == (500, b"500")
    assert connection.sock is used


def test_body_in_chunks_is_read_and_ends_the_connection(connection: http.client.HTTPConnection) -> None:
    assert _answer(connection, "PUT", "/echo", iter([b"one ", b"two"])) == (200, b"one two")
    assert connection.sock is None


def test_request_after_the_last_save_is_cut_off(tmp_path: Path) -> None:
    app = SandboxApp(lambda: None, Injector(tmp_path / "faults.json"), lambda _state: None)
    credential = f"{ACCESS_KEY_ID}/20261121/us-east-1/sts/aws4_request"
    environ = {
        "HTTP_HOST": "127.0.0.1",
        "HTTP_AUTHORIZATION": f"AWS4-HMAC-SHA256 Credential={credential}, Signature=x",
    }
    app.closed = True
    with pytest.raises(ConnectionAbortedError):
        app(environ, lambda *_: None)
