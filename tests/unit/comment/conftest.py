"""A code host on loopback with the comment APIs of GitHub and GitLab; it records requests."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

TOKEN = "ghs_0123456789secret"
PER_PAGE = 30
"""Smaller than requested, as a host may cap it: only the Link header has the next page."""


@dataclass
class Fault:
    """A response instead of the real one. `done` means that the request is carried out anyway."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "something is wrong"
    done: bool = False
    methods: tuple[str, ...] = ("GET", "POST", "PATCH", "PUT")


@dataclass
class FakeHost:
    """The state of the host, and its requests."""

    kind: str
    port: int = 0
    login: str = "github-actions[bot]"
    may_ask_who: bool = False
    read_only: bool = False
    comments: list[dict[str, Any]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    def add(self, body: str, login: str, **more: Any) -> dict[str, Any]:
        user = {"login": login, "username": login, "id": sum(login.encode())}
        made = {"id": len(self.comments) + 1, "body": body, "user": user, "author": user, **more}
        self.comments.append(made)
        return made

    def writes(self) -> list[str]:
        return [method for method, _ in self.requests if method != "GET"]

    def answer(self, method: str, path: str, document: Any) -> tuple[int, dict[str, str], Any]:
        parts = urlsplit(path)
        for fault in self.faults:
            if method in fault.methods:
                self.faults.remove(fault)
                if fault.done:
                    self._real(method, parts.path, parts.query, document)
                return fault.status, fault.headers, {"message": fault.message}
        return self._real(method, parts.path, parts.query, document)

    def _real(self, method: str, path: str, query: str, document: Any) -> tuple[int, dict[str, str], Any]:
        if path == "/api/user":
            if not self.may_ask_who:
                return 403, {}, {"message": "Resource not accessible by integration"}
            return 200, {}, {"login": self.login, "id": sum(self.login.encode())}
        listing = {
            "github": "/api/repos/acme/fleet/issues/7/comments",
            "gitlab": "/api/projects/42/merge_requests/7/notes",
        }[self.kind]
        one = {
            "github": r"/api/repos/acme/fleet/issues/comments/(\d+)",
            "gitlab": r"/api/projects/42/merge_requests/7/notes/(\d+)",
        }[self.kind]
        if method != "GET" and self.read_only:
            return 403, {}, {"message": "Resource not accessible by integration"}
        if path == listing and method == "GET":
            page = int(parse_qs(query).get("page", ["1"])[0])
            here = self.comments[(page - 1) * PER_PAGE : page * PER_PAGE]
            more = len(self.comments) > page * PER_PAGE
            # An address elsewhere: a client that follows it sends its token there.
            link = '<http://127.0.0.1:9/elsewhere>; rel="next", <http://127.0.0.1:9/e>; rel="last"'
            return 200, {"Link": link} if more else {}, here
        if path == listing and method == "POST":
            return 201, {}, self.add(document["body"], self.login)
        found = re.fullmatch(one, path)
        update = {"github": "PATCH", "gitlab": "PUT"}[self.kind]
        if found and method == update:
            for comment in self.comments:
                if comment["id"] == int(found[1]):
                    comment["body"] = document["body"]
                    return 200, {}, comment
        return 404, {}, {"message": "Not Found"}


class _Handler(BaseHTTPRequestHandler):
    host: FakeHost

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        document = json.loads(self.rfile.read(length)) if length else None
        self.host.requests.append((self.command, self.path))
        self.host.headers.append(dict(self.headers))
        status, headers, answer = self.host.answer(self.command, self.path, document)
        content = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_PUT = _serve  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


def _running(kind: str) -> Iterator[FakeHost]:
    host = FakeHost(kind)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"host": host}))
    host.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield host
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def github() -> Iterator[FakeHost]:
    yield from _running("github")


@pytest.fixture
def gitlab() -> Iterator[FakeHost]:
    for host in _running("gitlab"):
        host.login = "project_42_bot"
        host.may_ask_who = True
        yield host
