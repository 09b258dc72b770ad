"""The HTTP handler of the server: connections stay open, answers are sent at once, nothing is logged."""

from __future__ import annotations

import io
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler


class QuietHandler(MotoRequestHandler):  # type: ignore[misc]
    """HTTP/1.1 without Nagle's algorithm. werkzeug's own handler closes a connection after one request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    # Headers and body are one write.
    wbufsize = -1

    def run_wsgi(self) -> None:
        """Answer one request, of which all is read: the next one follows it on the connection."""
        # Of uploads that request it: 100 Continue.
        self.wfile.flush()
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not length.isdecimal():
            super().run_wsgi()
            return
        self.environ = environ = self.make_environ()
        environ["wsgi.input"] = io.BytesIO(self.rfile.read(int(length)))
        started: list[tuple[str, list[tuple[str, str]]]] = []
        answer = b"".join(self.server.app(environ, lambda *head: started.append(head)))
        status, headers = started[0]
        code, _, phrase = status.partition(" ")
        has_body = self.command != "HEAD" and int(code) not in {204, 304}
        if has_body and not any(name.lower() == "content-length" for name, _ in headers):
            headers.append(("Content-Length", str(len(answer))))
        self.send_response(int(code), phrase)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if has_body:
            self.wfile.write(answer)
        self.wfile.flush()

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Log nothing: the application logs errors."""
