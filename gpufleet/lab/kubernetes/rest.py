"""Requests to a Kubernetes API server on this machine, and its answers as values or plain errors."""

from __future__ import annotations

import json
import re
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3

from gpufleet.errors import CloudError, InputError
from gpufleet.lab.kubernetes.kubeconfig import ClusterConnection
from gpufleet.lab.kubernetes.objects import Manifest

APPLY = "application/apply-patch+yaml"
JSON = "application/json"

_CONNECTIONS = 16
_TIMEOUT = urllib3.Timeout(connect=5.0, read=60.0)


class ApiError(CloudError):
    """A rejection by the server. `code` is HTTP's, `reason` Kubernetes's (`NotFound`, `Invalid`, ...)."""

    def __init__(self, code: int, reason: str, message: str, *, remedy: str) -> None:
        super().__init__(message, remedy=remedy)
        self.code = code
        self.reason = reason


_REMEDIES: Mapping[str, str] = {
    "AlreadyExists": "delete it, choose another name, or set upsertExistingObjects to take it over",
    "Conflict": "another tool owns the field: remove it, or annotate pulumi.com/patchForce: 'true'",
    "Forbidden": "check the admission rule or permission in the message",
    "Invalid": "correct the field in the message",
    "BadRequest": "correct the field in the message",
    "NotFound": "first create what it belongs to, or its CustomResourceDefinition",
    "Unauthorized": "use a kubeconfig with valid credentials for this server",
}


class Rest:
    """A connection to one server. Thread-safe. Proxies of the environment are not used."""

    def __init__(self, cluster: ClusterConnection) -> None:
        if not cluster.on_this_machine:
            raise InputError(
                f"{cluster.server} is not on this machine: the sandbox connects to loopback only",
                remedy="use the real kubernetes provider for a real cluster",
            )
        self._server = cluster.server
        self._headers = {"Accept": JSON, "User-Agent": "gpufleet-sandbox"}
        if cluster.token:
            self._headers["Authorization"] = f"Bearer {cluster.token}"
        context = _tls(cluster) if cluster.server.startswith("https:") else None
        self._pool = urllib3.PoolManager(
            maxsize=_CONNECTIONS, block=True, retries=False, timeout=_TIMEOUT, ssl_context=context
        )

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        content_type: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> Manifest:
        """Return the server's answer. Raises ApiError for a rejection, CloudError without an answer."""
        url = f"{self._server}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = self._headers | ({"Content-Type": content_type} if body is not None else {})
        try:
            answer = self._pool.request(
                method, url, body=None if body is None else json.dumps(body).encode(), headers=headers
            )
        except urllib3.exceptions.HTTPError as error:
            raise CloudError(
                f"no answer from the API server {self._server}: {_plain(error)}",
                remedy="check that it runs, and that the kubeconfig has its address and its certificates",
            ) from None
        try:
            document = json.loads(answer.data) if answer.data else {}
        except ValueError:
            document = {"message": answer.data[:300].decode(errors="replace")}
        if answer.status >= 400:
            raise _refusal(answer.status, document)
        return dict(document)

    def find(self, path: str) -> Manifest | None:
        """Return the object at a path; None if there is none."""
        try:
            return self.call("GET", path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise


def _refusal(code: int, document: Any) -> ApiError:
    status: Mapping[str, Any] = document if isinstance(document, Mapping) else {}
    reason = str(status.get("reason") or "")
    message = re.sub(r"\s*\n\s*", " ", str(status.get("message") or f"HTTP {code}")).strip()
    remedy = _REMEDIES.get(reason, "correct the object, and run up again")
    return ApiError(code, reason, message, remedy=remedy)


def _plain(error: Exception) -> str:
    cause: object = getattr(error, "reason", None) or error
    return " ".join(str(cause).split())


def _tls(cluster: ClusterConnection) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=cluster.ca or None)
        if cluster.client_certificate and cluster.client_key:
            # The ssl module reads keys only from files; this one is deleted before the first request.
            with tempfile.TemporaryDirectory(prefix="gpufleet-kube-") as folder:
                pair = Path(folder) / "client.pem"
                pair.touch(mode=0o600)
                pair.write_text(cluster.client_certificate + "\n" + cluster.client_key, encoding="utf-8")
                context.load_cert_chain(pair)
    except ssl.SSLError as error:
        raise InputError(
            f"the certificates that the kubeconfig has for {cluster.server} cannot be read: {error.reason}",
            remedy="write the kubeconfig again",
        ) from None
    return context
