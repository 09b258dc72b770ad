"""The HTTP handler of the server: answers are sent at once, requests are not logged."""

from __future__ import annotations

from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler


class QuietHandler(MotoRequestHandler):  # type: ignore[misc]
    """HTTP/1.1 (uploads request 100-continue) without Nagle's algorithm: an answer is two small writes."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Log nothing: the application logs errors."""
