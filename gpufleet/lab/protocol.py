"""Shared parts of the sandbox's providers: Pulumi's provider protocol over gRPC.

Pulumi's own servicer, with errors as one line instead of a traceback.
"""

from __future__ import annotations

import asyncio
import collections
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import grpc
import grpc.aio
from google.protobuf import empty_pb2, struct_pb2
from pulumi.provider.experimental import provider as api
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.server import ProviderServicer
from pulumi.runtime import proto
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

from gpufleet.errors import GpufleetError

_FIELDS = ("code", "details", "trailing_metadata")
ARCHIVE = "4dabf18193072939515e22adb298388d:archive"
"""The key of archives and their assets in place of Pulumi's signature; no property of AWS has this name."""
_SIGNATURE = "4dabf18193072939515e22adb298388d"
_ARCHIVES = ("0def7320c3a5731c473e5ecbe6d01bc7", "c44067f5952c0a294b673a41bacd8c17")  # archive, asset


class InitFailedError(GpufleetError):
    """A creation that left a resource behind: the engine records its known properties."""

    def __init__(
        self,
        message: str,
        *,
        resource_id: str,
        properties: dict[str, PropertyValue],
        inputs: dict[str, PropertyValue],
    ) -> None:
        super().__init__(message)
        self.resource_id = resource_id
        self.properties = properties
        self.inputs = inputs


class UnknownOutcomeError(GpufleetError):
    """It is unknown whether a creation happened: the engine must search it before it creates again."""


class DiffRequest(api.DiffRequest):
    """A diff request with the old inputs, which the protocol has and the base class lacks."""

    old_inputs: dict[str, PropertyValue]


class UpdateRequest(api.UpdateRequest):
    """An update request with the old inputs, likewise."""

    old_inputs: dict[str, PropertyValue]


class _Status(collections.namedtuple("_Status", _FIELDS), grpc.Status):  # type: ignore[misc]
    """The argument of grpc's abort_with_status."""


class Servicer(ProviderServicer):
    """The provider protocol. Differences from the base class: one-line errors, resources that failed to
    become ready are reported with their id, old inputs reach Diff, and Handshake and Attach."""

    def __init__(self, provider: api.Provider, version: str, engine_address: str = "") -> None:
        super().__init__([], version, provider, engine_address=engine_address)

    async def _answer(self, call: Callable[[], Awaitable[Any]], context: grpc.aio.ServicerContext) -> Any:
        try:
            return with_archives(await call())
        except Exception as error:
            cause = _cause(error)
            if isinstance(cause, InitFailedError):
                await context.abort_with_status(_init_failed(cause))
            if isinstance(cause, UnknownOutcomeError):
                await context.abort(grpc.StatusCode.ABORTED, one_line(cause))
            if isinstance(cause, GpufleetError):
                await context.abort(grpc.StatusCode.UNKNOWN, one_line(cause))
            raise

    async def Handshake(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """Report the provider's features."""
        del request, context
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True)

    async def Attach(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """Do nothing: the provider does not call the engine."""
        del request, context
        return empty_pb2.Empty()

    async def GetSchema(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """See Provider.get_schema."""
        return await self._answer(lambda: super(Servicer, self).GetSchema(request, context), context)

    async def CheckConfig(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """See Provider.check_config."""
        return await self._answer(lambda: super(Servicer, self).CheckConfig(request, context), context)

    async def DiffConfig(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """See Provider.diff_config. The base class confuses a boolean with the protocol's enum."""

        async def call() -> Any:
            answer = await self._provider.diff_config(_diff_request(request))
            return _diff_response(answer)

        return await self._answer(call, context)

    async def Configure(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """See Provider.configure."""
        return await self._answer(lambda: super(Servicer, self).Configure(request, context), context)

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """See Provider.check."""
        return await self._answer(
            lambda: super(Servicer, self).Check(without_archives(request), context), context
        )

    async def Diff(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """See Provider.diff."""

        async def call() -> Any:
            answer = await self._provider.diff(_diff_request(without_archives(request)))
            return _diff_response(answer)

        return await self._answer(call, context)

    async def Create(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """See Provider.create."""
        return await self._answer(
            lambda: super(Servicer, self).Create(without_archives(request), context), context
        )

    async def Read(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """See Provider.read."""
        return await self._answer(
            lambda: super(Servicer, self).Read(without_archives(request), context), context
        )

    async def Update(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """See Provider.update."""
        without_archives(request)

        async def call() -> Any:
            made = UpdateRequest(
                request.urn,
                request.id,
                PropertyValue.unmarshal_map(request.olds),
                PropertyValue.unmarshal_map(request.news),
                request.timeout,
                list(request.ignoreChanges),
                request.preview,
            )
            made.old_inputs = PropertyValue.unmarshal_map(request.old_inputs)
            answer = await self._provider.update(made)
            return proto.UpdateResponse(properties=PropertyValue.marshal_map(answer.properties))

        return await self._answer(call, context)

    async def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """See Provider.delete."""
        return await self._answer(
            lambda: super(Servicer, self).Delete(without_archives(request), context), context
        )

    async def Construct(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """See Provider.construct."""
        return await self._answer(lambda: super(Servicer, self).Construct(request, context), context)

    async def Invoke(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """See Provider.invoke."""
        return await self._answer(lambda: super(Servicer, self).Invoke(request, context), context)


def without_archives(message: Any) -> Any:
    """Write archives with their assets in a request as plain objects, with the key ARCHIVE.

    The base class drops their hashes, and fails for those of which an engine sends nothing but the hash.
    """
    return _renamed(message, _SIGNATURE, ARCHIVE)


def with_archives(message: Any) -> Any:
    """Write plain objects with the key ARCHIVE in a response as archives with their assets."""
    return _renamed(message, ARCHIVE, _SIGNATURE)


def _renamed(message: Any, before: str, after: str) -> Any:
    # Few messages have an archive, and a search in their bytes is faster than one in their objects.
    if _ARCHIVES[0].encode() in message.SerializeToString():
        for _, value in message.ListFields():
            for fields in _objects(value) if isinstance(value, struct_pb2.Struct) else ():
                if before in fields and fields[before].string_value in _ARCHIVES:
                    fields[after].string_value = fields.pop(before).string_value
    return message


def _objects(struct: struct_pb2.Struct) -> Iterator[Any]:
    """The fields of a struct and of all structs in it."""
    yield struct.fields
    waiting = list(struct.fields.values())
    while waiting:
        value = waiting.pop()
        waiting += value.list_value.values
        if value.HasField("struct_value"):
            yield value.struct_value.fields
            waiting += value.struct_value.fields.values()


def _cause(error: BaseException) -> BaseException:
    """Return the provider's own error beneath the base class's error with a traceback."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, GpufleetError):
            return inner
        inner = inner.__cause__ or inner.__context__
    return error


def _diff_request(request: Any) -> DiffRequest:
    made = DiffRequest(
        request.urn,
        request.id,
        PropertyValue.unmarshal_map(request.olds),
        PropertyValue.unmarshal_map(request.news),
        list(request.ignoreChanges),
    )
    made.old_inputs = PropertyValue.unmarshal_map(request.old_inputs)
    return made


def _diff_response(answer: api.DiffResponse) -> Any:
    some = proto.DiffResponse.DIFF_SOME if answer.changes else proto.DiffResponse.DIFF_NONE
    return proto.DiffResponse(
        replaces=answer.replaces,
        stables=answer.stables,
        deleteBeforeReplace=answer.delete_before_replace,
        changes=some,
        diffs=answer.diffs,
        detailedDiff={
            path: proto.PropertyDiff(
                kind=proto.PropertyDiff.Kind.Value(item.kind.name), inputDiff=item.input_diff
            )
            for path, item in answer.detailed_diff.items()
        },
        hasDetailedDiff=True,
    )


def _init_failed(error: InitFailedError) -> _Status:
    detail = provider_pb2.ErrorResourceInitFailed(
        id=error.resource_id,
        properties=PropertyValue.marshal_map(error.properties),
        reasons=[error.message],
        inputs=PropertyValue.marshal_map(error.inputs),
    )
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=error.message)
    status.details.add().Pack(with_archives(detail))
    metadata = (("grpc-status-details-bin", status.SerializeToString()),)
    return _Status(grpc.StatusCode.UNKNOWN, error.message, metadata)  # type: ignore[call-arg]


def one_line(error: GpufleetError) -> str:
    """Return message and remedy as the single line that an engine prints."""
    return f"{error.message}; {error.remedy}" if error.remedy else error.message


async def start(
    provider: api.Provider, version: str, engine_address: str = ""
) -> tuple[grpc.aio.Server, int]:
    """Start a server on a free port of the loopback interface; return it with the port."""
    server = grpc.aio.server(options=_GRPC_CHANNEL_OPTIONS)
    servicer = Servicer(provider, version, engine_address)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, port


def serve(make: Callable[[str], api.Provider], version: str, arguments: list[str]) -> int:
    """Serve until it is ended; print the port as the first line, as plugins do.

    `make` gets the engine's address, which is the first argument that is not an option.
    """
    engine = next((item for item in arguments if not item.startswith("-")), "")

    async def run() -> None:
        server, port = await start(make(engine), version, engine)
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        await server.wait_for_termination()

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        return 130
    return 0
