"""Requests to registries and chart repositories: http and https only, through the environment's proxies."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping

from msgspec import Struct, field

import gpufleet

TIMEOUT_S = 60.0
_MOST = 64 * 1024 * 1024
_HANDLERS = (
    urllib.request.ProxyHandler,
    urllib.request.UnknownHandler,
    urllib.request.HTTPHandler,
    urllib.request.HTTPSHandler,
    urllib.request.HTTPDefaultErrorHandler,
    urllib.request.HTTPRedirectHandler,
    urllib.request.HTTPErrorProcessor,
)


class UnreachableError(Exception):
    """An address did not answer; the text says why."""


class RegistryAnswer(Struct, frozen=True):
    """The answer of a server, whatever its code."""

    code: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


def ask(address: str, *, method: str = "GET", headers: Mapping[str, str] | None = None) -> RegistryAnswer:
    """Return what `address` answers, at most 64 MiB of it. Raises UnreachableError."""
    # An answer names the next address (a token's realm, a chart's archive): it must not be a local file.
    opener = urllib.request.OpenerDirector()
    for handler in _HANDLERS:
        opener.add_handler(handler())
    sent = {"User-Agent": f"gpufleet/{gpufleet.__version__}", **(headers or {})}
    try:
        request = urllib.request.Request(address, method=method, headers=sent)  # noqa: S310 - see above
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            body = answer.read(_MOST + 1) if method == "GET" else b""
    except urllib.error.HTTPError as error:
        return RegistryAnswer(error.code, dict(error.headers))
    except (OSError, ValueError) as error:
        raise UnreachableError(f"{address} does not answer: {getattr(error, 'reason', error)}") from None
    if len(body) > _MOST:
        raise UnreachableError(f"{address} has more than {_MOST // 1024**2} MiB")
    return RegistryAnswer(answer.status, dict(answer.headers), body)
