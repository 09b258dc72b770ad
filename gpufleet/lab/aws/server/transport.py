"""Clients of the emulated AWS in its own process: their requests reach the application without a socket."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from botocore.awsrequest import AWSResponse, HeadersDict
from moto.core.request import (
    PRESERVED_HEADER_NAMES_ENVIRON_KEY,
    environ_key_for_header,
    should_preserve_original_header_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from botocore.awsrequest import AWSPreparedRequest

_BODILESS = {204, 304}


class Transport:
    """Answers a client's request with a WSGI application: a handler of botocore's event `before-send`.

    The application gets what werkzeug's server would pass on, so it answers as it does over HTTP.
    """

    def __init__(self, app: Callable[[dict[str, Any], Any], Iterable[bytes]]) -> None:
        self._app = app

    def __call__(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        """Return the answer to a request that is ready to be sent."""
        started: list[tuple[str, list[tuple[str, str]]]] = []
        answer = b"".join(self._app(environ_of(request), lambda *head: started.append(head)))
        status, headers = started[0]
        code = int(status.partition(" ")[0])
        body = b"" if request.method == "HEAD" or code in _BODILESS else answer
        return AWSResponse(request.url, code, HeadersDict(headers), _Body(body))


class _Body(io.BytesIO):
    """The body of an answer, with the methods that botocore uses of urllib3's."""

    def stream(self, amt: int = 1 << 16, decode_content: bool | None = None) -> Iterator[bytes]:
        """Return the rest in parts."""
        del decode_content
        while part := self.read(amt):
            yield part


def environ_of(request: AWSPreparedRequest) -> dict[str, Any]:
    """Return the WSGI environment of a request, as werkzeug's server makes it."""
    url = urlsplit(request.url)
    body = _content(request.body)
    target = f"{url.path}?{url.query}" if url.query else url.path
    environ: dict[str, Any] = {
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": url.scheme,
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote(url.path).encode().decode("latin1"),
        "QUERY_STRING": url.query,
        "REQUEST_URI": target,
        "RAW_URI": target,
        "REMOTE_ADDR": url.hostname,
        "SERVER_NAME": url.hostname,
        "SERVER_PORT": str(url.port),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": url.netloc,
        "HTTP_ACCEPT_ENCODING": "identity",
    }
    # Names with an underscore (of S3 metadata) last: they do not stand in for one with a dash.
    names = environ[PRESERVED_HEADER_NAMES_ENVIRON_KEY] = {}
    for name, value in sorted(request.headers.items(), key=lambda item: "_" in item[0]):
        text = value.decode("latin1") if isinstance(value, bytes) else str(value)
        key = environ_key_for_header(name)
        if "_" not in name:
            environ[key] = text
        elif should_preserve_original_header_name(name) and key not in environ:
            environ[key], names[key] = text, name
    environ["CONTENT_LENGTH"] = str(len(body))
    return environ


def _content(body: Any) -> bytes:
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode()
    return bytes(body) if isinstance(body, bytes | bytearray) else bytes(body.read())
