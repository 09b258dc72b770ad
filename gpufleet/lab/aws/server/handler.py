"""The HTTP side of the server: answers leave at once, nothing is logged."""

from __future__ import annotations

from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler


class QuietHandler(MotoRequestHandler):  # type: ignore[misc]
    """HTTP/1.1 (uploads ask for 100-continue); Nagle's algorithm off, since an answer is two small writes."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """A request is no news: errors reach the log through the application."""
