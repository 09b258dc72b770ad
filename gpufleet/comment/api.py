"""A small JSON client for the API of a code host, which sends its token only to that host.

It allows only https (http on the loopback interface), no redirects, bounded answers and a bounded time. The
token is only in a header: not in an address, argv or a message.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPException
from typing import IO, Any, NoReturn
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

from gpufleet.errors import CloudError, InputError

_TRIES = 5
_PATIENCE_S = 90.0
_TIMEOUT_S = 30.0
_MOST_BYTES = 32 * 1024 * 1024
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_BUSY = frozenset({429, 500, 502, 503, 504})


class CodeHostError(CloudError):
    """The API returned an error or no answer; `status` is 0 without an answer.

    `transient`: the same request may succeed later. `processed`: a write may have succeeded although it seems
    to have failed.
    """

    def __init__(self, message: str, status: int = 0, *, transient: bool = False, processed: bool = False):
        super().__init__(message, remedy="run it again later" if transient else "")
        self.status = status
        self.transient = transient
        self.processed = processed


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API: the JSON document, and whether there is another page."""

    document: Any
    more: bool


class _NoRedirect(HTTPRedirectHandler):
    """Rejects redirects, which would send the token elsewhere."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> NoReturn:
        raise CodeHostError(
            f"the API answered {code} and points to {urlsplit(newurl).hostname}; redirects are not followed",
            code,
        )


@dataclass
class Api:
    """The API at an address, with a header that authenticates. `sleep` waits between retries."""

    address: str
    header: tuple[str, str] = field(repr=False)
    sleep: Callable[[float], None] = time.sleep
    _opener: OpenerDirector = field(init=False, repr=False)
    _patience: float = field(init=False, default=_PATIENCE_S, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.address)
        local = parts.hostname in _LOOPBACK
        if not parts.hostname or (parts.scheme != "https" and not (local and parts.scheme == "http")):
            raise InputError(
                f"the API's address {parts.scheme}://{parts.hostname} is not https",
                remedy="use an https address: the token is sent only over https",
            )
        if parts.username or parts.password or parts.query or parts.fragment:
            raise InputError(
                "the API's address has more than host and path", remedy="remove user, query and #"
            )
        value = self.header[1]
        if not value or any(ord(char) < 33 or ord(char) > 126 for char in value.replace(" ", "")):
            raise InputError("the token is empty or has invalid characters", remedy="set the variable again")
        self.address = self.address.rstrip("/")
        # No proxy of the environment: one for http would receive the token.
        proxies = ProxyHandler({}) if local else ProxyHandler()
        self._opener = build_opener(_NoRedirect, proxies)

    def get(self, path: str) -> Answer:
        """Read; retry while the API is busy."""
        return self._with_retries("GET", path, None)

    def put(self, method: str, path: str, document: Mapping[str, Any]) -> Answer:
        """Write something that may be written twice (an update); retry like `get`."""
        return self._with_retries(method, path, document)

    def post(self, path: str, document: Mapping[str, Any]) -> Answer:
        """Create. Retry only after answers that mean that nothing was created."""
        return self._with_retries("POST", path, document)

    def wait(self, attempt: int, asked: float | None = None) -> bool:
        """Wait before a retry; return False if the time of this client is used up."""
        seconds = float(2**attempt) if asked is None else max(asked, 1.0)
        if seconds > self._patience:
            return False
        self._patience -= seconds
        self.sleep(seconds)
        return True

    def _with_retries(self, method: str, path: str, document: Mapping[str, Any] | None) -> Answer:
        for attempt in range(_TRIES):
            try:
                return self._once(method, path, document)
            except _RefusedError as refused:
                error = refused.error
                last = attempt == _TRIES - 1
                if last or not error.transient or (method == "POST" and error.processed):
                    raise error from None
                if not self.wait(attempt, refused.after):
                    raise error from None
        raise AssertionError("unreachable: the last try raises")

    def _once(self, method: str, path: str, document: Mapping[str, Any] | None) -> Answer:
        name, value = self.header
        headers = {name: value, "Accept": "application/json", "User-Agent": "gpufleet"}
        data = None
        if document is not None:
            data = json.dumps(document).encode()
            headers["Content-Type"] = "application/json"
        # The scheme was checked above.
        request = Request(self.address + path, data=data, headers=headers, method=method)  # noqa: S310
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                content = answer.read(_MOST_BYTES + 1)
                if len(content) > _MOST_BYTES:
                    raise _RefusedError(CodeHostError(f"{method} {path}: the answer is too large"))
                return Answer(
                    json.loads(content) if content else None, 'rel="next"' in answer.headers.get("Link", "")
                )
        except HTTPError as error:
            raise self._refusal(method, path, error) from None
        except (URLError, OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, URLError) else type(error).__name__
            failed = CodeHostError(f"{method} {path}: {reason}", transient=True, processed=True)
            raise _RefusedError(failed) from None
        except ValueError:
            raise _RefusedError(CodeHostError(f"{method} {path}: the answer is not JSON")) from None

    def _refusal(self, method: str, path: str, error: HTTPError) -> _RefusedError:
        reply = self._api_message(error)
        after = _seconds(error.headers.get("Retry-After"))
        limited = error.code == 429 or (
            error.code == 403 and (after is not None or error.headers.get("X-RateLimit-Remaining") == "0")
        )
        if limited and after is None:
            reset = _seconds(error.headers.get("X-RateLimit-Reset"))
            after = None if reset is None else reset - time.time()
        what = f"{method} {path}: {error.code}{f' ({reply})' if reply else ''}"
        transient = limited or error.code in _BUSY
        return _RefusedError(
            CodeHostError(what, error.code, transient=transient, processed=transient and not limited), after
        )

    def _api_message(self, error: HTTPError) -> str:
        """Return the API's message on one line, without the token even if it is in the answer."""
        try:
            reply = json.loads(error.read(100_000)).get("message", "")
        except (ValueError, OSError, AttributeError, HTTPException):
            return ""
        text = " ".join(str(reply).split())[:200]
        secret = self.header[1].split()[-1]
        return text.replace(secret, "[token]")


class _RefusedError(Exception):
    """A failed attempt: the error, and the seconds after which the API requests a retry."""

    def __init__(self, error: CodeHostError, after: float | None = None) -> None:
        super().__init__()
        self.error = error
        self.after = after


def _seconds(value: str | Message | None) -> float | None:
    try:
        return float(str(value)) if value is not None else None
    except ValueError:
        return None
