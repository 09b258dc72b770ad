"""The package repository over HTTP, as files in a folder; it can be taken away and brought back."""

from __future__ import annotations

import contextlib
import os
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PORT = 80


class Repository:
    """Serves `folder` on `address`. While it is off, connections are refused and running ones end."""

    def __init__(self, folder: Path, address: str) -> None:
        self._folder = folder
        self._address = address
        self._server: _Server | None = None

    @property
    def on(self) -> bool:
        """Whether it answers."""
        return self._server is not None

    @property
    def port(self) -> int:
        """Where it answers while it is on."""
        return self._server.server_port if self._server is not None else 0

    def start(self) -> None:
        """Listens; answers are sent by threads of its own."""
        if self._server is None:
            handler = partial(_Handler, directory=str(self._folder))
            self._server = _Server((self._address, PORT), handler)
            threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Refuses connections, and cuts those that are open: a download ends in the middle."""
        if self._server is not None:
            server, self._server = self._server, None
            server.shutdown()
            server.server_close()
            server.cut()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    # Eight hosts with a few connections each, at once.
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        self.open: set[Any] = set()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def cut(self) -> None:
        """Ends the connections that are still open."""
        for request in list(self.open):
            with contextlib.suppress(OSError):
                request.shutdown(2)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A host that went away in the middle is no event."""


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body are written apart: without this the kernel holds the body back (Nagle).
    disable_nagle_algorithm = True

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Sends a file without passing it through Python."""
        outputfile.flush()
        offset, size = 0, os.fstat(source.fileno()).st_size
        while offset < size:
            offset += os.sendfile(self.connection.fileno(), source.fileno(), offset, size - offset)

    def list_directory(self, path: Any) -> None:
        """A repository is read by its index, not by listing folders."""
        self.send_error(404)

    def log_message(self, format: str, *args: Any) -> None:
        """Downloads are not worth a line each."""
