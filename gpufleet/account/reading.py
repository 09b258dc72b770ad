"""Reading calls to AWS, whose refusals become `NotCheckedError` with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Clients = Callable[[str, str], Any]
"""(service, region) -> boto3 client."""


class NotCheckedError(Exception):
    """AWS refused or did not answer a reading call: the check has no result."""


def read(client: Any, method: str, **parameters: Any) -> dict[str, Any]:
    """Return the answer to one call. Raises NotCheckedError if there is none; other error codes of AWS pass.

    Access denied and failures of AWS or the network are no answer. A missing resource is one.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    call = f"{client.meta.service_model.service_id}: {client.meta.method_to_api_mapping[method]}"
    try:
        answer: dict[str, Any] = getattr(client, method)(**parameters)
    except ClientError as error:
        code = error_code(error)
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
        if _is_denial(code) or status >= 500 or _is_throttling(code):
            raise NotCheckedError(f"{call} is refused ({code})") from None
        raise
    except BotoCoreError as error:
        raise NotCheckedError(f"{call} is not answered ({error})") from None
    return answer


def pages(client: Any, method: str, key: str, **parameters: Any) -> Iterator[Any]:
    """Yield the entries at `key` of all pages. Raises as `read`."""
    token: dict[str, Any] = {}
    # Names of the token differ: NextToken of most services, nextToken of EKS, Marker of IAM.
    while True:
        answer = read(client, method, **parameters, **token)
        yield from answer.get(key) or ()
        name = next((each for each in ("NextToken", "nextToken", "Marker") if answer.get(each)), None)
        if name is None:
            return
        token = {name: answer[name]}


def error_code(error: Any) -> str:
    """Return AWS's code of a ClientError."""
    return str(error.response.get("Error", {}).get("Code", "unknown"))


def _is_denial(code: str) -> bool:
    return "AccessDenied" in code or code in (
        "UnauthorizedOperation",
        "AuthFailure",
        "NotAuthorized",
        "OptInRequired",
        "UnrecognizedClientException",
        "InvalidClientTokenId",
        "ExpiredToken",
        "ExpiredTokenException",
        "NotImplemented",
    )


def _is_throttling(code: str) -> bool:
    return code in ("Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException")
