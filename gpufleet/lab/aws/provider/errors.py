"""Turns exceptions of botocore into one line that a user can act on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    HTTPClientError,
    ParamValidationError,
)

from gpufleet.errors import CloudError, GpufleetError
from gpufleet.lab.aws.provider.retries import TRANSIENT

_MISSING = re.compile(r"NotFound|NoSuch|NotExist|NonExistent|^404$|\.Unknown$|^Unknown(Monitor|Subscription)")
_NO_CAPACITY = "InsufficientInstanceCapacity"
# EC2's server errors (its list of error codes) that mean that nothing was created.
_REFUSED = re.compile(r"Insufficient\w*Capacity")
_ELSEWHERE = (
    "use another zone or type (`zones`, `instance_types`), reserve capacity, or run up again later: "
    "completed steps are kept"
)
_REMEDIES = (
    (re.compile(_NO_CAPACITY), _ELSEWHERE),
    (
        re.compile(r"NotImplemented|^501$|UnknownOperation"),
        "the emulated AWS of gpufleet does not have this operation",
    ),
    (
        re.compile(r"AlreadyExist|Duplicate|InUse|AlreadyOwned|Conflict"),
        "choose another name, or delete what is there",
    ),
    (re.compile(r"DependencyViolation|DeleteConflict"), "first delete what still uses it"),
    (_MISSING, "a resource that it refers to does not exist: run refresh, then up"),
    (re.compile(r"Limit|Quota|Capacity"), "raise the quota, or request less, another zone or another time"),
    (
        re.compile(r"Unauthorized|AccessDenied|AuthFailure|InvalidClientTokenId"),
        "use the sandbox's own credentials",
    ),
    (re.compile(r"Throttl|RequestLimit"), "run up again: completed steps are kept"),
)


class PartialCreateError(GpufleetError):
    """A resource exists but did not become ready; the state must keep it. `resource_id` is its id."""

    def __init__(self, message: str, *, resource_id: str, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.resource_id = resource_id


def is_outcome_unknown(error: BaseException) -> bool:
    """Return whether the result of a request is unknown: the server failed, or the connection broke."""
    if isinstance(error, EndpointConnectionError):
        return False
    if isinstance(error, ClientError):
        if _REFUSED.match(error.response.get("Error", {}).get("Code", "")):
            return False
        return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in TRANSIENT
    return isinstance(error, HTTPClientError)


@contextmanager
def keep_on_failure(resource_id: str) -> Iterator[None]:
    """Keep a created resource in the state if a step in the block fails."""
    try:
        yield
    except PartialCreateError:
        raise
    except (ClientError, BotoCoreError, TimeoutError, GpufleetError) as error:
        code = f"{code_of(error)}: " if code_of(error) else ""
        raise PartialCreateError(
            f"{resource_id} was created, is kept in the state and is incomplete: {code}{message_of(error)}",
            resource_id=resource_id,
            remedy=_ELSEWHERE if _NO_CAPACITY in message_of(error) else "correct the inputs and run up again",
        ) from error


def code_of(error: BaseException) -> str:
    """Return the AWS error code of an exception, or an empty string."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", ""))
    return ""


def message_of(error: BaseException) -> str:
    """Return the AWS message of an exception."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Message", "")) or str(error)
    return str(error)


def is_missing(error: BaseException) -> bool:
    """Return whether an exception says that the resource does not exist."""
    return bool(_MISSING.search(code_of(error)))


def explain(error: Exception, subject: str, action: str) -> GpufleetError:
    """Return a one-line error: action, subject, AWS' code and message, and a remedy."""
    if isinstance(error, GpufleetError):
        return _prefixed(error, subject, action)
    if isinstance(error, ParamValidationError):
        details = str(error).removeprefix("Parameter validation failed:")
        return CloudError(
            _line(f"{action} {subject}: the AWS API rejects the parameters: {details}"),
            remedy="correct the property in the message",
        )
    if isinstance(error, ClientError):
        code = code_of(error)
        remedy = next(
            (text for pattern, text in _REMEDIES if pattern.search(code)),
            "correct the inputs and run up again",
        )
        return CloudError(_line(f"{action} {subject}: {code}: {message_of(error)}"), remedy=remedy)
    if isinstance(error, EndpointConnectionError):
        return CloudError(
            _line(f"{action} {subject}: no answer from the emulated AWS: {error}"),
            remedy="start it with 'gpufleet sandbox start'",
        )
    if isinstance(error, BotoCoreError | TimeoutError):
        return CloudError(_line(f"{action} {subject}: {error}"), remedy="run refresh, then up again")
    return GpufleetError(
        _line(f"{action} {subject}: {type(error).__name__}: {error}"),
        remedy="report this: it is an error of the provider",
    )


def _prefixed(error: GpufleetError, subject: str, action: str) -> GpufleetError:
    if subject in error.message:
        return error
    message = _line(f"{action} {subject}: {error.message}")
    if isinstance(error, PartialCreateError):
        return PartialCreateError(message, resource_id=error.resource_id, remedy=error.remedy)
    return type(error)(message, remedy=error.remedy)


def _line(text: str) -> str:
    return re.sub(r"\s*\n\s*", "; ", text.strip()).replace(":; ", ": ")
