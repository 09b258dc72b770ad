"""AWS operations that the sandbox adds to moto: functions from a parsed request to a result.

An operation is a function decorated with `@operation(service, name)`. botocore's own service model parses the
request into `Call.params` and turns the returned dict into the wire format, so the formats are AWS's. If moto
has the operation, `Call.original()` runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moto.core import utils
from moto.core.exceptions import ServiceException
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import determine_request_protocol
from moto.core.responses import ActionResult, BaseResponse
from moto.core.utils import camelcase_to_underscores
from msgspec import Struct

Params = dict[str, Any]
Handler = Callable[["Call"], "Params | Passthrough"]

REGISTRY: dict[str, dict[str, Handler]] = {}
"""Service (moto's name) -> operation (AWS's name) -> handler."""


class AwsError(ServiceException):  # type: ignore[misc]
    """An error that the caller receives as botocore's ClientError: `AwsError(code, message)`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)


class Passthrough(Struct, frozen=True):
    """moto's own answer, passed on unchanged."""

    answer: Any

    @property
    def result(self) -> Any:
        """Return moto's result object, if moto serialises the operation by the model."""
        return self.answer.result


class Call(Struct, frozen=True):
    """One request: caller, region, and the parameters with botocore's names.

    Timestamps in `params` are naive datetimes in UTC, as everywhere in moto.
    """

    account: str
    region: str
    partition: str
    params: Params
    response: Any
    moto_method: Callable[[Any], Any] | None

    def original(self) -> Passthrough:
        """Run moto's implementation of the operation."""
        if self.moto_method is None:
            raise NotImplementedError("moto has no such operation")
        return Passthrough(self.moto_method(self.response))


def operation(service: str, name: str) -> Callable[[Handler], Handler]:
    """Register a function as the AWS operation `name` of `service` (moto's service name)."""

    def register(handler: Handler) -> Handler:
        handlers = REGISTRY.setdefault(service, {})
        if name in handlers:
            raise ValueError(f"{service}:{name} is registered twice")
        handlers[name] = handler
        return handler

    return register


def attach(response_class: type[BaseResponse], service: str) -> None:
    """Add the registered operations of `service` to moto's response class; it can be repeated."""
    for name, handler in REGISTRY.get(service, {}).items():
        method_name = camelcase_to_underscores(name)
        current = getattr(response_class, method_name, None)
        if getattr(current, "gpufleet_handler", None) is not handler:
            setattr(response_class, method_name, _method(name, handler, current))
    # `server.caches` keeps the names of the methods, also of a class that was used before.
    if hasattr(utils.method_names_from_class, "cache_clear"):
        utils.method_names_from_class.cache_clear()


def _method(name: str, handler: Handler, moto_method: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        call = Call(
            account=self.current_account,
            region=self.region,
            partition=self.partition,
            params=_parse(self, name),
            response=self,
            moto_method=moto_method,
        )
        answer = handler(call)
        return answer.answer if isinstance(answer, Passthrough) else ActionResult(answer)

    method.gpufleet_handler = handler  # type: ignore[attr-defined]
    return method


def _parse(response: Any, name: str) -> Params:
    request = response.normalized_request
    model = utils.get_service_model(response.boto3_service_name)
    parser = PROTOCOL_PARSERS[determine_request_protocol(model, request.content_type)]
    parsed: Params = parser(model.operation_model(name), map_type=dict).parse(
        {
            "method": request.method,
            "values": request.values,
            "headers": request.headers,
            "body": request.data,
            "url_path": request.path,
            "url_params": response.uri_match,
        }
    )
    return parsed
