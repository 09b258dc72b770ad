"""Use Pulumi's provider protocol with the sandbox's provider, over gRPC, like an engine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from gpufleet.lab.aws.provider.provider import AwsProvider
from gpufleet.lab.aws.provider.server import start
from gpufleet.lab.aws.provider.wire import plain_map, wrap_map


class Server:
    """The provider's gRPC server on a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server, self.port = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()

    @staticmethod
    async def _start() -> Any:
        return await start(AwsProvider())

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.stop(None), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@dataclass
class Resource:
    """A resource in the state of an engine."""

    token: str
    name: str
    inputs: dict[str, Any]
    id: str = ""
    state: dict[str, Any] = field(default_factory=dict)

    @property
    def urn(self) -> str:
        return f"urn:pulumi:test::gpufleet::{self.token}::{self.name}"


class CheckError(AssertionError):
    """Check refused the inputs."""


class Engine:
    """A one-resource-at-a-time engine."""

    def __init__(self, port: int) -> None:
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.stub = provider_pb2_grpc.ResourceProviderStub(self.channel)

    def close(self) -> None:
        self.channel.close()

    def configure(self, **settings: Any) -> None:
        self.stub.Configure(provider_pb2.ConfigureRequest(args=as_struct(settings), acceptSecrets=True))

    def check(
        self, token: str, name: str, inputs: Mapping[str, Any], old: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        urn = Resource(token, name, {}).urn
        answer = self.stub.Check(
            provider_pb2.CheckRequest(
                urn=urn, olds=as_struct(old or {}), news=as_struct(inputs), randomSeed=b"seed"
            )
        )
        if answer.failures:
            raise CheckError("; ".join(f"{item.property}: {item.reason}" for item in answer.failures))
        return _plain(answer.inputs)

    def preview(self, token: str, name: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        checked = self.check(token, name, inputs)
        urn = Resource(token, name, {}).urn
        answer = self.stub.Create(
            provider_pb2.CreateRequest(urn=urn, properties=as_struct(checked), preview=True)
        )
        assert answer.id == ""
        return _plain(answer.properties)

    def create(self, token: str, name: str, inputs: Mapping[str, Any]) -> Resource:
        made = Resource(token, name, self.check(token, name, inputs))
        answer = self.stub.Create(provider_pb2.CreateRequest(urn=made.urn, properties=as_struct(made.inputs)))
        made.id, made.state = answer.id, _plain(answer.properties)
        return made

    def diff(
        self, resource: Resource, inputs: Mapping[str, Any], ignore: tuple[str, ...] = ()
    ) -> provider_pb2.DiffResponse:
        checked = self.check(resource.token, resource.name, inputs, resource.inputs)
        return self.stub.Diff(
            provider_pb2.DiffRequest(
                urn=resource.urn, id=resource.id, olds=as_struct(resource.state), news=as_struct(checked),
                old_inputs=as_struct(resource.inputs), ignoreChanges=ignore,
            )
        )  # fmt: skip

    def update(
        self, resource: Resource, inputs: Mapping[str, Any], *, preview: bool = False
    ) -> dict[str, Any]:
        checked = self.check(resource.token, resource.name, inputs, resource.inputs)
        answer = self.stub.Update(
            provider_pb2.UpdateRequest(
                urn=resource.urn, id=resource.id, olds=as_struct(resource.state), news=as_struct(checked),
                old_inputs=as_struct(resource.inputs), preview=preview,
            )
        )  # fmt: skip
        planned = _plain(answer.properties)
        if not preview:
            resource.inputs, resource.state = checked, planned
        return planned

    def refresh(self, resource: Resource) -> bool:
        """Read; False if the resource is deleted."""
        answer = self.stub.Read(
            provider_pb2.ReadRequest(
                urn=resource.urn,
                id=resource.id,
                properties=as_struct(resource.state),
                inputs=as_struct(resource.inputs),
            )
        )
        if not answer.id:
            return False
        resource.state, resource.inputs = _plain(answer.properties), _plain(answer.inputs)
        return True

    def delete(self, resource: Resource) -> None:
        self.stub.Delete(
            provider_pb2.DeleteRequest(urn=resource.urn, id=resource.id, properties=as_struct(resource.state))
        )

    def invoke(self, token: str, **arguments: Any) -> dict[str, Any]:
        answer = self.stub.Invoke(provider_pb2.InvokeRequest(tok=token, args=as_struct(arguments)))
        return _plain(getattr(answer, "return"))


def as_struct(values: Mapping[str, Any]) -> Any:
    return PropertyValue.marshal_map(wrap_map(values))


def _plain(struct: Any) -> dict[str, Any]:
    return plain_map(PropertyValue.unmarshal_map(struct))
