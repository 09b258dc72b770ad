"""The WSGI application: the guard, then moto's dispatcher with the sandbox's operations.

Requests run one after another: moto shares response objects between threads, and a snapshot needs a moment
without changes.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import traceback
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from moto.moto_server.werkzeug_app import create_backend_app

from gpufleet.lab.aws.backends import install_service
from gpufleet.lab.aws.faults import shortage
from gpufleet.lab.aws.faults.requests import read_request
from gpufleet.lab.aws.server import caches, guard, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpufleet.lab.aws.faults.inject import Injector

CONTROL = "/_gpufleet/"
CONTROL_HEADER = "HTTP_X_GPUFLEET_SANDBOX"
"""A browser page cannot send this header without a preflight, and the server answers no preflight."""

_WRITING_READS = {"DescribeCapacityBlockOfferings", "GetParameter", "GetParameters"}
"""Reads with a result that the sandbox stores: returned offerings, images of a public parameter."""

_READ = ("ec2", "ssm", "sts")
"""What the look-ups of most fleets use, in a preview too: EC2 takes longer than all others together."""

_CREATED = (*_READ, "iam", "kms", "s3", "eks", "logs", "autoscaling", "fsx", "sns")
"""What the creation of most fleets uses."""

_READS = ("Describe", "Get", "List", "Head", "Lookup", "Simulate", "Search", "BatchGet")


class SandboxApp:
    """moto behind the guard.

    `on_change` is called after each request that may have changed state, `save` with the state on request.
    """

    def __init__(
        self, on_change: Callable[[], None], faults: Injector, save: Callable[[bytes], None]
    ) -> None:
        self.lock = threading.Lock()
        self._faults = faults
        self.last_request = time.monotonic()
        self.controls: dict[str, Callable[[Any], dict[str, Any]]] = {}
        """Further requests about the server: their verb, and what answers the JSON of their body."""
        self.closed = False
        """Whether the state has been saved for the last time: requests on open connections are cut off."""
        self._on_change = on_change
        self._save = save
        self._restored = False
        self._backends = snapshot.backend_count()
        caches.enable()
        self._moto = caches.Dispatcher(_create_app)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request."""
        self.last_request = time.monotonic()
        path = environ.get("PATH_INFO", "")
        if path.startswith(CONTROL):
            return self._control(environ, path.removeprefix(CONTROL), start_response)
        why = guard.refusal(environ)
        if why:
            return _error(environ, start_response, 403, "AccessDenied", why)
        if path.startswith("/moto-api"):
            return _error(environ, start_response, 404, "NotFound", "the sandbox has no moto-api")
        if self._faults.refresh():
            return self._with_faults(environ, start_response)
        return self._perform(environ, start_response)

    def load(self, *, creates: bool) -> None:
        """Load the services of a fleet, one after another, while no request needs them.

        Without `creates` only those of its look-ups.
        """
        for service in _CREATED if creates else _READ:
            with self.lock:
                if self._restored:
                    return
                self._moto.load(service)
            # It is not idle: requests wait for this.
            self.last_request = time.monotonic()

    def _with_faults(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request, unless a fault prevents it."""
        if self._faults.faults.shortages:
            with self.lock:
                shortage.install(lambda: self._faults.faults.shortages)
        request = read_request(environ)
        refusal = self._faults.before(request)
        if refusal is None:
            started: list[tuple[Any, ...]] = []
            answer = list(self._perform(environ, lambda *head: started.append(head)))
            refusal = self._faults.after(request, int(str(started[0][0]).partition(" ")[0]), b"".join(answer))
            if refusal is None:
                start_response(*started[0])
                return answer
        return _error(environ, start_response, refusal.status, refusal.code, refusal.message)

    def _perform(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        body = _buffer(environ)
        with self.lock:
            if self.closed:
                raise ConnectionAbortedError
            launched = shortage.launch_waiting()
            try:
                answer: Iterable[bytes] = list(self._moto(environ, start_response))
            except NotImplementedError as error:
                message = f"the sandbox's AWS has no such operation: {error}"
                return _error(environ, start_response, 501, "NotImplemented", message)
            except Exception as error:
                traceback.print_exc(file=sys.stderr)
                message = f"the sandbox's AWS failed on this request: {error!r}"
                return _error(environ, start_response, 500, "InternalFailure", message)
            backends = snapshot.backend_count()
            changed = launched or backends != self._backends or not _is_read(environ, body)
            self._backends = backends
        if changed:
            self._on_change()
        self.last_request = time.monotonic()
        return answer

    def _control(self, environ: dict[str, Any], verb: str, start_response: Any) -> Iterable[bytes]:
        if CONTROL_HEADER not in environ:
            return _error(environ, start_response, 403, "AccessDenied", "not for browsers")
        if verb == "health":
            return _json(start_response, {"status": "ok", **snapshot.header()})
        if verb == "faults":
            return _json(start_response, self._faults.report())
        if verb == "reset" and environ["REQUEST_METHOD"] == "POST":
            self.reset()
            return _json(start_response, {"status": "reset"})
        if verb == "save" and environ["REQUEST_METHOD"] == "POST":
            with self.lock:
                state = snapshot.dump()
            self._save(state)
            return _json(start_response, {"status": "saved"})
        if verb == "restore" and environ["REQUEST_METHOD"] == "POST":
            self._restore(Path(json.load(environ["wsgi.input"])))
            return _json(start_response, {"status": "restored"})
        if verb in self.controls and environ["REQUEST_METHOD"] == "POST":
            return _json(start_response, self.controls[verb](json.load(environ["wsgi.input"])))
        if verb.startswith("end-block/") and environ["REQUEST_METHOD"] == "POST":
            return _json(start_response, {"ended": self.end_block(verb.removeprefix("end-block/"))})
        return _error(environ, start_response, 404, "NotFound", f"no control verb {verb!r}")

    def _restore(self, file: Path) -> None:
        """Continue from a saved state. Its fleet exists, so only what requests need is loaded."""
        with self.lock:
            self._restored = True
            snapshot.load(file)
            self._backends = snapshot.backend_count()

    def end_block(self, reservation_id: str) -> bool:
        """End a Capacity Block."""
        from gpufleet.lab.aws.backends.ec2_capacity_blocks import end_block

        with self.lock:
            ended = end_block(reservation_id)
        self._on_change()
        return ended

    def reset(self) -> None:
        """Delete every resource, as moto does between two tests."""
        with self.lock:
            snapshot.clear()
            self._backends = snapshot.backend_count()
        self._on_change()


def _create_app(service: Any) -> Any:
    install_service(service)
    return create_backend_app(service)


def _is_read(environ: dict[str, Any], body: bytes) -> bool:
    target: str = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
    if target:
        return _reads(target)
    if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
        action = parse_qs(body[:4096].decode(errors="replace")).get("Action", [""])[0]
        return _reads(action)
    return environ["REQUEST_METHOD"] in {"GET", "HEAD"}


def _reads(action: str) -> bool:
    return action.startswith(_READS) and action not in _WRITING_READS


def _buffer(environ: dict[str, Any]) -> bytes:
    """Return the body of a form, read once and put back; other bodies are not read."""
    if not environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
        return b""
    import io

    length = int(environ.get("CONTENT_LENGTH") or 0)
    body: bytes = environ["wsgi.input"].read(length)
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _json(start_response: Any, document: dict[str, Any]) -> Iterable[bytes]:
    return _send(start_response, 200, "application/json", json.dumps(document).encode())


def _error(
    environ: dict[str, Any], start_response: Any, status: int, code: str, message: str
) -> Iterable[bytes]:
    content_type, body = guard.error_body(environ, code, message)
    return _send(start_response, status, content_type, body, [("x-amzn-errortype", code)])


def _send(
    start_response: Any,
    status: int,
    content_type: str,
    body: bytes,
    extra: list[tuple[str, str]] | None = None,
) -> Iterable[bytes]:
    headers = [("Content-Type", content_type), ("Content-Length", str(len(body))), *(extra or [])]
    start_response(f"{status} {HTTPStatus(status).phrase}", headers)
    return [body]
