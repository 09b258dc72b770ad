"""The service and operation of an HTTP request, read before it is handled."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, unquote

from msgspec import Struct, field

_SCOPE = re.compile(r"Credential=[^/]+/[^/]+/([^/]+)/([^/]+)/")
BOTOCORE_NAMES = {
    "elasticfilesystem": "efs",
    "elasticloadbalancing": "elbv2",
    "monitoring": "cloudwatch",
    "servicequotas": "service-quotas",
    "tagging": "resourcegroupstaggingapi",
}
"""Signing name -> botocore's name, of services that have two."""


class Request(Struct, frozen=True):
    """One request: signing name of the service, region, operation, and readable parameters.

    `parameters` are those of a form; `text` is the whole request, for a search of ids and names.
    """

    service: str
    region: str
    action: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    text: str = ""


def read_request(environ: dict[str, Any]) -> Request:
    """Read the request of a WSGI environment, whose body can be read again afterwards."""
    match = _SCOPE.search(environ.get("HTTP_AUTHORIZATION", ""))
    region, service = (match[1], match[2].lower()) if match else ("", "")
    body = _body(environ)
    path, query = environ.get("PATH_INFO", ""), environ.get("QUERY_STRING", "")
    target = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
    parameters: dict[str, str] = {}
    if target:
        action = target
    elif environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
        parameters = dict(parse_qsl(body, keep_blank_values=True))
        action = parameters.get("Action", "")
    else:
        action = _rest_action(service, environ.get("REQUEST_METHOD", ""), path, query)
    return Request(service, region, action, parameters, f"{unquote(path)} {unquote(query)} {unquote(body)}")


def _body(environ: dict[str, Any]) -> str:
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if not length:
        return ""
    body: bytes = environ["wsgi.input"].read(length)
    environ["wsgi.input"] = io.BytesIO(body)
    return body.decode("utf-8", errors="replace")


def _rest_action(service: str, method: str, path: str, query: str) -> str:
    given = {name for name, _ in parse_qsl(query, keep_blank_values=True)}
    for name, verb, pattern, needed in _routes(BOTOCORE_NAMES.get(service, service)):
        if verb == method and needed <= given and pattern.fullmatch(path):
            return name
    return ""


@lru_cache(maxsize=16)
def _routes(service: str) -> tuple[tuple[str, str, re.Pattern[str], frozenset[str]], ...]:
    """Return operations of a REST service with method, path and query, the most specific first."""
    import botocore.session
    from botocore.exceptions import UnknownServiceError

    try:
        model = botocore.session.Session().get_service_model(service)
    except UnknownServiceError:
        return ()
    routes = []
    for name in model.operation_names:
        http = model.operation_model(name).http
        path, _, query = str(http.get("requestUri", "/")).partition("?")
        needed = frozenset(key for key, _ in parse_qsl(query, keep_blank_values=True))
        parts = re.split(r"(\{[^}]+\})", path.rstrip("/") or "/")
        expression = "".join(
            (".+" if part.endswith("+}") else "[^/]+") if part.startswith("{") else re.escape(part)
            for part in parts
        )
        routes.append((name, str(http["method"]), re.compile(expression + "/?"), needed, len(parts)))
    routes.sort(key=lambda each: (-len(each[3]), each[4]))
    return tuple((name, method, pattern, needed) for name, method, pattern, needed, _ in routes)
