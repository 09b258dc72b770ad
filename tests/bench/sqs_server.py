"""SQS's calls that the handler makes, answered from memory.

The emulated AWS answers one call at a time, and slower the more messages there are: it would be measured
in the place of the handler. Everything else of AWS stays with the emulated one.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
import time
from collections import deque
from typing import Any

VISIBILITY_S = 10.0


class SqsServer(http.server.ThreadingHTTPServer):
    """A queue at `url`. Messages that were received and not deleted come again after ten seconds."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lock = threading.Lock()
        self._ready: deque[tuple[str, str, float]] = deque()
        self._given: dict[str, tuple[float, tuple[str, str, float]]] = {}
        self._count = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The address of the queue, with an account in it as SQS's have."""
        return f"http://127.0.0.1:{self.server_port}/123456789012/notices"

    def send(self, bodies: list[str]) -> None:
        """Put messages into the queue."""
        with self.lock:
            for body in bodies:
                self._count += 1
                self._ready.append((f"m-{self._count}", body, time.time()))

    def left(self) -> int:
        """Messages that are not deleted."""
        with self.lock:
            return len(self._ready) + len(self._given)

    def answer(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a call in SQS's JSON protocol."""
        if operation == "ReceiveMessage":
            return {"Messages": [_message(*each) for each in self._receive(request["MaxNumberOfMessages"])]}
        with self.lock:
            for entry in request["Entries"]:
                self._given.pop(entry["ReceiptHandle"], None)
        return {"Successful": [{"Id": entry["Id"]} for entry in request["Entries"]], "Failed": []}

    def _receive(self, most: int) -> list[tuple[str, str, float]]:
        now = time.time()
        with self.lock:
            for receipt in [key for key, (until, _) in self._given.items() if until <= now]:
                self._ready.append(self._given.pop(receipt)[1])
            found = [self._ready.popleft() for _ in range(min(most, len(self._ready)))]
            for each in found:
                self._given[each[0]] = (now + VISIBILITY_S, each)
        return found


def _message(name: str, body: str, sent: float) -> dict[str, Any]:
    return {
        "MessageId": name,
        "ReceiptHandle": name,
        "MD5OfBody": hashlib.md5(body.encode(), usedforsecurity=False).hexdigest(),
        "Body": body,
        "Attributes": {"SentTimestamp": str(int(sent * 1000))},
    }


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: SqsServer

    def do_POST(self) -> None:
        """Answer one call."""
        operation = self.headers["X-Amz-Target"].rpartition(".")[2]
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = json.dumps(self.server.answer(operation, request)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""
        del format, args
