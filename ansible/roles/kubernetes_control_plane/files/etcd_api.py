"""etcd's JSON API (its gRPC gateway) of one control plane: snapshots, members, and a lock.

Nothing of a container is run, so nothing keeps running, or keeps a file, when the caller is killed.
Requests and answers: etcd.io, "gRPC gateway", and rpc.proto (Maintenance, Cluster, KV, Lease).
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import json
import ssl
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from etcd_member import EtcdError

DIGEST = hashlib.sha256().digest_size


class Etcd:
    """One address of etcd. `keys` has ca.crt, and the certificate and key that clients use."""

    def __init__(self, url: str, keys: Path, timeout_s: float = 30) -> None:
        self.url, self.timeout_s = url, timeout_s
        self.address = urllib.parse.urlsplit(url)
        try:
            self.context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
            self.context.load_cert_chain(keys / "server.crt", keys / "server.key")
        except OSError as error:
            raise EtcdError(
                f"the certificates in {keys} cannot be read ({error}). Is this host a member of the"
                " control plane?"
            ) from error

    @contextlib.contextmanager
    def _answer(self, method: str, path: str, body: Any = None) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPSConnection(
            str(self.address.hostname), self.address.port, timeout=self.timeout_s, context=self.context
        )
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            if answer.status != http.HTTPStatus.OK:
                text = answer.read(500).decode(errors="replace").strip()
                raise EtcdError(f"etcd at {self.url} answers {answer.status} to {path}: {text}")
            yield answer
        except (OSError, http.client.HTTPException) as error:
            raise EtcdError(f"etcd at {self.url} does not answer: {error or type(error).__name__}") from error
        finally:
            connection.close()

    def ask(self, path: str, **body: Any) -> dict[str, Any]:
        """The answer to one request."""
        with self._answer("POST", path, body) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found

    def status(self) -> dict[str, Any]:
        """State of this member: `version`, `dbSize`, `leader`, and `header` with the revision."""
        return self.ask("/v3/maintenance/status")

    def count(self) -> int:
        """The number of keys."""
        everything = base64.b64encode(b"\0").decode()
        return int(
            self.ask("/v3/kv/range", key=everything, range_end=everything, count_only=True).get("count", 0)
        )

    def members(self) -> list[dict[str, Any]]:
        """All members with `name`, `peerURLs` and `clientURLs`."""
        return list(self.ask("/v3/cluster/member/list")["members"])

    def problem(self) -> str:
        """Why this member cannot serve clients; empty if it can. etcd asks a quorum of the members."""
        try:
            with self._answer("GET", "/health") as answer:
                document = json.loads(answer.read())
        except (EtcdError, ValueError) as error:
            return str(error)
        return "" if document.get("health") == "true" else f"etcd at {self.url} is not healthy: {document}"

    def save(self, target: BinaryIO) -> None:
        """Write a snapshot. It ends with the SHA-256 of the rest; raises EtcdError if that differs."""
        digest, held = hashlib.sha256(), b""
        with self._answer("POST", "/v3/maintenance/snapshot", {}) as answer:
            for line in answer:
                part = json.loads(line)
                if "result" not in part:
                    raise EtcdError(f"etcd ended the snapshot: {part.get('error', part)}")
                blob = base64.b64decode(part["result"].get("blob", ""))
                target.write(blob)
                held += blob
                digest.update(held[:-DIGEST])
                held = held[-DIGEST:]
        if held != digest.digest():
            raise EtcdError("the snapshot is not complete: its SHA-256 differs from that of etcd")

    @contextlib.contextmanager
    def lock(self, name: str, holder: str, seconds: int) -> Iterator[str]:
        """Hold a lock of the cluster, for at most `seconds`; yields the other holder where there is one.

        The key belongs to a lease: if this host dies, etcd releases it.
        """
        key, value = (base64.b64encode(text.encode()).decode() for text in (name, holder))
        lease = self.ask("/v3/lease/grant", TTL=str(seconds))["ID"]
        try:
            document = self.ask(
                "/v3/kv/txn",
                compare=[{"key": key, "target": "CREATE", "create_revision": "0"}],
                success=[{"request_put": {"key": key, "value": value, "lease": lease}}],
                failure=[{"request_range": {"key": key}}],
            )
            if document.get("succeeded"):
                yield ""
            else:
                (found,) = document["responses"][0]["response_range"]["kvs"]
                yield base64.b64decode(found["value"]).decode(errors="replace")
        finally:
            # Else it expires by itself.
            with contextlib.suppress(EtcdError):
                self.ask("/v3/lease/revoke", ID=lease)
