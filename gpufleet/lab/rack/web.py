"""The package repository over HTTP, from a folder; it can be disabled and enabled."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PORT = 80
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Repository:
    """Serves `folder` on `address`. While it is off, connections are rejected and running ones end."""

    def __init__(self, folder: Path, address: str) -> None:
        self._folder = folder
        self._address = address
        self._server: _Server | None = None

    @property
    def on(self) -> bool:
        """Return whether it answers."""
        return self._server is not None

    @property
    def port(self) -> int:
        """Return its port while it is on."""
        return self._server.server_port if self._server is not None else 0

    def start(self) -> None:
        """Listen; separate threads send answers."""
        if self._server is None:
            handler = partial(_Handler, directory=str(self._folder))
            self._server = _Server((self._address, PORT), handler)
            threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Reject connections, and cut open ones: a download ends in the middle."""
        if self._server is not None:
            server, self._server = self._server, None
            server.shutdown()
            server.server_close()
            server.cut()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    # Eight hosts with a few connections each, at the same time.
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
        """End the open connections."""
        for request in list(self.open):
            with contextlib.suppress(OSError):
                request.shutdown(2)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a host that disconnects during a transfer."""


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body are written separately: otherwise the kernel delays the body (Nagle).
    disable_nagle_algorithm = True

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Send a file without copying it through Python."""
        outputfile.flush()
        offset, size = 0, os.fstat(source.fileno()).st_size
        while offset < size:
            offset += os.sendfile(self.connection.fileno(), source.fileno(), offset, size - offset)

    def guess_type(self, path: Any) -> str:
        """Return the media type: of a manifest, what it says of itself, else by the file's name."""
        if "/manifests/" not in str(path):
            return super().guess_type(path)
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return str(json.loads(Path(path).read_bytes())["mediaType"])
        return _MANIFEST

    def list_directory(self, path: Any) -> None:
        """Reject listings: a repository is read by its index. Only a registry answers at its root."""
        if self.path != "/v2/":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: downloads need no log lines."""
