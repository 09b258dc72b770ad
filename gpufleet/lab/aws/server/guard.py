"""The guard of moto's server: which callers are answered.

Only requests to a loopback name are answered (a web page that rebinds its own name to 127.0.0.1 sends its
name as Host), and only those signed with the sandbox's own key. The answer to anything else is 403 in the
caller's own protocol, so that SDKs show the message.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from gpufleet.lab.aws.credentials import ACCESS_KEY_ID

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_CREDENTIAL = re.compile(r"Credential=([^/,\s]+)/")
_SIGV2 = re.compile(r"^AWS ([^:\s]+):")


def refusal(environ: Mapping[str, Any]) -> str:
    """Return why this request is rejected; empty if it is answered."""
    host = _hostname(environ.get("HTTP_HOST", ""))
    if host not in {"127.0.0.1", "localhost", "::1"} and not host.endswith(".localhost"):
        return f"the sandbox answers on loopback only, not to the host name {host!r}"
    key = access_key(environ)
    if key is None:
        return "the sandbox rejects unsigned requests: sign with the key of gpufleet.lab.aws.credentials"
    if key != ACCESS_KEY_ID:
        return (
            f"the sandbox rejects the access key {_masked(key)}: it accepts only its key {ACCESS_KEY_ID}, "
            "so that real credentials are never used; unset AWS_PROFILE and AWS_ACCESS_KEY_ID"
        )
    return ""


def access_key(environ: Mapping[str, Any]) -> str | None:
    """Return the access key id of a request, from header or presigned URL, SigV4 or SigV2."""
    authorization = environ.get("HTTP_AUTHORIZATION", "")
    match = _CREDENTIAL.search(authorization) or _SIGV2.match(authorization)
    if match:
        return match.group(1)
    query = parse_qs(environ.get("QUERY_STRING", ""))
    credential = query.get("X-Amz-Credential", [""])[0].partition("/")[0]
    return credential or query.get("AWSAccessKeyId", [""])[0] or None


def error_body(environ: Mapping[str, Any], code: str, message: str) -> tuple[str, bytes]:
    """Return content type and body of an error: JSON for JSON protocols, else XML, which every SDK reads."""
    content_type = environ.get("CONTENT_TYPE", "")
    if "json" in content_type or environ.get("HTTP_X_AMZ_TARGET") or not _speaks_xml(environ):
        import json

        return "application/json", json.dumps({"__type": code, "message": message}).encode()
    error = f"<Code>{escape(code)}</Code><Message>{escape(message)}</Message>"
    body = f"<Response><Errors><Error>{error}</Error></Errors><Error>{error}</Error>{error}</Response>"
    if _service(environ) == "s3":
        body = f"<Error>{error}</Error>"
    elif _service(environ) != "ec2":
        body = f"<ErrorResponse><Error>{error}</Error></ErrorResponse>"
    return "text/xml", body.encode()


def _speaks_xml(environ: Mapping[str, Any]) -> bool:
    form = environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded")
    return form or _service(environ) in {"", "s3"}


def _service(environ: Mapping[str, Any]) -> str:
    scope = re.search(r"Credential=[^/]+/[^/]+/[^/]+/([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
    return scope.group(1).lower() if scope else ""


def _hostname(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _masked(key: str) -> str:
    return f"{key[:4]}...{key[-2:]}" if len(key) > 8 else "given"
