"""One provider: Pulumi's ResourceProvider calls on resources, in plain Python."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import grpc
from msgspec import Struct
from pulumi.runtime.proto import provider_pb2

from gpufleet.engine.embedded import values
from gpufleet.engine.embedded.connection import CheckResult, Connection, to_diff
from gpufleet.engine.embedded.diffs import ResourceDiff
from gpufleet.engine.embedded.urns import urn_name, urn_type
from gpufleet.engine.embedded.values import Properties
from gpufleet.engine.errors import ProviderError


class ReadResult(Struct, frozen=True):
    """What a provider read: an empty `id` means that the resource does not exist."""

    id: str
    inputs: Properties | None
    outputs: Properties


class Provider(Connection):
    """A configured provider (in a preview, possibly with unknown configuration)."""

    def check(self, urn: str, olds: Properties, news: Properties) -> CheckResult:
        """Validate and complete the inputs of a resource."""
        if not self.config_known:
            return CheckResult(news)
        request = provider_pb2.CheckRequest(
            urn=urn,
            name=urn_name(urn),
            type=urn_type(urn),
            olds=self._encode(olds),
            news=self._encode(news),
            randomSeed=secrets.token_bytes(32),
        )
        try:
            answer = self._stub.Check(request)
        except grpc.RpcError as error:
            raise self._failure(error) from error
        inputs = self._decode(answer.inputs, news)
        return CheckResult(inputs, tuple((item.property, item.reason) for item in answer.failures))

    def diff(
        self,
        urn: str,
        identifier: str,
        old_inputs: Properties,
        old_outputs: Properties,
        news: Properties,
        ignore: Sequence[str],
    ) -> ResourceDiff:
        """Return the provider's diff of a change."""
        if not self.config_known:
            return ResourceDiff(changes=True)
        request = provider_pb2.DiffRequest(
            id=identifier,
            urn=urn,
            name=urn_name(urn),
            type=urn_type(urn),
            old_inputs=self._encode(old_inputs, contents=False),
            olds=self._encode(old_outputs, contents=False),
            news=self._encode(news, contents=False),
            ignoreChanges=ignore,
        )
        try:
            return to_diff(self._stub.Diff(request))
        except grpc.RpcError as error:
            raise self._failure(error) from error

    def create(
        self, urn: str, inputs: Properties, timeout: float, *, preview: bool
    ) -> tuple[str, Properties]:
        """Create a resource; return its id and outputs. A preview may know neither."""
        if preview and not self.config_known:
            return "", {}
        if preview and not self._supports_preview:
            return "", dict(inputs)
        request = provider_pb2.CreateRequest(
            urn=urn,
            name=urn_name(urn),
            type=urn_type(urn),
            properties=self._encode(inputs),
            timeout=timeout,
            preview=preview,
        )
        try:
            answer = self._stub.Create(request)
        except grpc.RpcError as error:
            raise self._failure(error, inputs) from error
        if not answer.id and not preview:
            raise ProviderError(f"provider '{self.package}' created a resource without an id")
        return answer.id, self._decode(answer.properties, inputs)

    def update(
        self,
        urn: str,
        identifier: str,
        old_inputs: Properties,
        old_outputs: Properties,
        inputs: Properties,
        timeout: float,
        ignore: Sequence[str],
        *,
        preview: bool,
    ) -> Properties:
        """Update a resource in place; return its new outputs."""
        if preview and not self.config_known:
            return {}
        if preview and not self._supports_preview:
            return dict(inputs)
        request = provider_pb2.UpdateRequest(
            id=identifier,
            urn=urn,
            name=urn_name(urn),
            type=urn_type(urn),
            old_inputs=self._encode(old_inputs, contents=False),
            olds=self._encode(old_outputs, contents=False),
            news=self._encode(inputs),
            timeout=timeout,
            ignoreChanges=ignore,
            preview=preview,
        )
        try:
            answer = self._stub.Update(request)
        except grpc.RpcError as error:
            raise self._failure(error, inputs) from error
        return self._decode(answer.properties, inputs)

    def delete(
        self, urn: str, identifier: str, inputs: Properties, outputs: Properties, timeout: float
    ) -> None:
        """Delete a resource."""
        request = provider_pb2.DeleteRequest(
            id=identifier,
            urn=urn,
            name=urn_name(urn),
            type=urn_type(urn),
            properties=self._encode(outputs, contents=False),
            old_inputs=self._encode(inputs, contents=False),
            timeout=timeout,
        )
        try:
            self._stub.Delete(request)
        except grpc.RpcError as error:
            raise self._failure(error) from error

    def read(
        self, urn: str, identifier: str, inputs: Properties, outputs: Properties, timeout: float = 0.0
    ) -> ReadResult:
        """Read the resource from the cloud."""
        if not self.config_known:
            return ReadResult(identifier, {}, {})
        request = provider_pb2.ReadRequest(
            id=identifier,
            urn=urn,
            name=urn_name(urn),
            type=urn_type(urn),
            inputs=self._encode(inputs, contents=False),
            properties=self._encode(outputs, contents=False),
            timeout=timeout,
        )
        try:
            answer = self._stub.Read(request)
        except grpc.RpcError as error:
            raise self._failure(error, inputs) from error
        live = self._decode(answer.inputs, inputs) if answer.HasField("inputs") else None
        return ReadResult(answer.id, live, self._decode(answer.properties, outputs))

    def invoke(
        self, token: str, args: Properties, *, preview: bool
    ) -> tuple[Properties, tuple[tuple[str, str], ...]]:
        """Call a function; return its result, and (property, reason) for each invalid argument."""
        if not self.config_known:
            return {}, ()
        request = provider_pb2.InvokeRequest(tok=token, args=self._encode(args), preview=preview)
        try:
            answer = self._stub.Invoke(request)
        except grpc.RpcError as error:
            raise self._failure(error) from error
        result = values.decode(getattr(answer, "return"))
        if not self._secrets and values.contains_secret(args):
            result = {key: values.as_secret(value) for key, value in result.items()}
        return result, tuple((item.property, item.reason) for item in answer.failures)
