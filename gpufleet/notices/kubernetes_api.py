"""Requests to the API of the cluster that a pod runs in: one connection for each thread."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PAGE = 500
TIMEOUT_S = 15


class KubernetesApiError(Exception):
    """A request that failed; `status` is 0 if there was no answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}" if status else message)
        self.status = status


@dataclass
class KubernetesApi:
    """An API server at `url`. The token is read for each request, since Kubernetes renews it."""

    url: str
    token: Path | None = None
    ca: Path | None = None
    _local: threading.local = field(default_factory=threading.local)

    @classmethod
    def in_cluster(cls) -> KubernetesApi:
        """Return the API of this pod's cluster, with its service account."""
        host = os.environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        host = f"[{host}]" if ":" in host else host
        return cls(f"https://{host}:{port}", _ACCOUNT / "token", _ACCOUNT / "ca.crt")

    def list(self, path: str, query: str = "") -> Sequence[Mapping[str, Any]]:
        """Return all items of a list, page by page."""
        items: list[Mapping[str, Any]] = []
        more = ""
        while True:
            parts = [query, f"limit={PAGE}", f"continue={quote(more, safe='')}" if more else ""]
            found = self.call("GET", f"{path}?{'&'.join(part for part in parts if part)}")
            items += found.get("items") or ()
            more = found.get("metadata", {}).get("continue") or ""
            if not more:
                return items

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """Send a request, twice if a kept connection was closed. Raises ApiError."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Content-Type": kind, "Accept": "application/json"}
        try:
            if self.token is not None:
                headers["Authorization"] = f"Bearer {self.token.read_text(encoding='utf-8').strip()}"
            payload = None if body is None else json.dumps(body)
            kept = getattr(self._local, "connection", None)
            for connection in (kept, None) if kept is not None else (None,):
                try:
                    return self._answer(connection or self._connect(), method, path, payload, headers)
                except (http.client.HTTPException, OSError):
                    self.close()
                    if connection is None:
                        raise
        except (http.client.HTTPException, OSError, ValueError) as error:
            raise KubernetesApiError(0, f"{method} {path}: {error}") from None
        raise AssertionError("a request has an answer or an error")

    def close(self) -> None:
        """Close the connection of this thread."""
        kept = getattr(self._local, "connection", None)
        self._local.connection = None
        if kept is not None:
            kept.close()

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port
        made: http.client.HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
            made = http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)
        else:
            made = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        self._local.connection = made
        return made

    def _answer(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        payload: str | None,
        headers: Mapping[str, str],
    ) -> Mapping[str, Any]:
        connection.request(method, path, payload, dict(headers))
        response = connection.getresponse()
        data = response.read()
        if response.status >= 400:
            raise KubernetesApiError(response.status, data[:300].decode(errors="replace"))
        found = json.loads(data) if data else {}
        if not isinstance(found, dict):
            raise KubernetesApiError(response.status, "no object")
        return found
