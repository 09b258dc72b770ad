"""A connection to one provider plugin: Pulumi's ResourceProvider protocol, as plain calls.

Each call sends what the provider said it understands (secrets, resource references), keeps the
secret mark where it does not, and turns its failures into `ProviderError` with the provider's own
message. Facts about defaults and fall-backs: pkg/resource/plugin/provider_plugin.go of Pulumi.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

from gpufleet.engine.embedded import values
from gpufleet.engine.embedded.diffs import Diff
from gpufleet.engine.embedded.urns import PROVIDER_PREFIX, urn_name, urn_type
from gpufleet.engine.embedded.values import Properties
from gpufleet.engine.errors import ProviderError

# Pulumi's own limit (400 MiB): a message is one resource, and some carry whole manifests.
CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", 400 * 1024 * 1024),
    ("grpc.max_send_message_length", 400 * 1024 * 1024),
    ("grpc.enable_http_proxy", 0),
]


class InitFailedError(ProviderError):
    """The resource exists but did not come up: it has an id, a state and reasons."""

    def __init__(self, message: str, detail: provider_pb2.ErrorResourceInitFailed) -> None:
        super().__init__(message)
        self.id = detail.id
        self.reasons = list(detail.reasons)
        self.properties = values.decode(detail.properties)
        self.inputs = values.decode(detail.inputs) if detail.HasField("inputs") else None


class ProviderStoppedError(ProviderError):
    """The plugin went away during a call: nobody knows whether the operation took place."""


@dataclass(frozen=True, slots=True)
class ReadResult:
    """What a provider found: an empty `id` means that the resource is gone."""

    id: str
    inputs: Properties | None
    outputs: Properties


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Checked inputs, and (property, reason) for each that is wrong."""

    inputs: Properties
    failures: tuple[tuple[str, str], ...] = ()


class Plugin(Protocol):
    """The process behind a connection."""

    @property
    def stderr(self) -> Iterable[str]:
        """The last lines it wrote there."""
        ...

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        ...


class Provider:
    """One configured provider. All methods may be called from several threads."""

    def __init__(self, package: str, address: str, engine_address: str, plugin: Plugin | None = None) -> None:
        self.package = package
        self._plugin = plugin
        self._channel = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
        self._stub = provider_pb2_grpc.ResourceProviderStub(self._channel)
        self._secrets = False
        self._resources = False
        self._supports_preview = False
        self._handshaken = self._handshake(engine_address)
        self.config_known = True
        self.configured = False

    def _handshake(self, engine_address: str) -> bool:
        request = provider_pb2.ProviderHandshakeRequest(
            engine_address=engine_address, configure_with_urn=True, invoke_with_preview=True
        )
        try:
            answer = self._stub.Handshake(request)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNIMPLEMENTED:
                return False
            raise self._failure(error) from error
        self._secrets, self._resources = answer.accept_secrets, answer.accept_resources
        # A provider that knows the handshake is newer than previews and must support them.
        self._supports_preview = True
        return True

    # -- configuration

    def check_config(self, urn: str, olds: Properties, news: Properties) -> CheckResult:
        """Validate provider inputs; a provider without CheckConfig takes them as they are."""
        request = provider_pb2.CheckRequest(
            urn=urn,
            name=urn_name(urn),
            type=urn_type(urn),
            olds=values.encode(olds, secrets=False),
            news=values.encode(news, secrets=False),
        )
        try:
            answer = self._stub.CheckConfig(request)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNIMPLEMENTED:
                return CheckResult(news)
            raise self._failure(error) from error
        inputs = values.decode(answer.inputs) if answer.HasField("inputs") else dict(news)
        values.keep_secrets_of(inputs, news)
        return CheckResult(inputs, tuple((item.property, item.reason) for item in answer.failures))

    def diff_config(
        self, urn: str, old_inputs: Properties, old_outputs: Properties, news: Properties
    ) -> Diff:
        """Whether a change of configuration needs new resources (`replaces`)."""
        request = provider_pb2.DiffRequest(
            urn=urn,
            name=urn_name(urn),
            type=urn_type(urn),
            old_inputs=values.encode(old_inputs, secrets=False),
            olds=values.encode(old_outputs, secrets=False),
            news=values.encode(news, secrets=False),
        )
        try:
            return _to_diff(self._stub.DiffConfig(request))
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNIMPLEMENTED:
                return Diff(changes=None)
            raise self._failure(error) from error

    def configure(self, urn: str, identifier: str, inputs: Properties) -> None:
        """Give the provider its configuration; with unknown values it is left unconfigured (preview)."""
        self.configured = True
        if values.contains_unknown(inputs):
            self.config_known = False
            return
        variables = {}
        for key, value in inputs.items():
            if key != "version":
                plain = values.reveal(value)
                text = plain if isinstance(plain, str) else json.dumps(plain)
                variables[f"{urn_type(urn).removeprefix(PROVIDER_PREFIX)}:config:{key}"] = text
        request = provider_pb2.ConfigureRequest(
            urn=urn,
            id=identifier,
            name=urn_name(urn),
            type=urn_type(urn),
            variables=variables,
            args=values.encode(inputs),
            acceptSecrets=True,
            acceptResources=True,
            sends_old_inputs=True,
            sends_old_inputs_to_delete=True,
        )
        try:
            answer = self._stub.Configure(request)
        except grpc.RpcError as error:
            raise self._failure(error) from error
        if not self._handshaken:
            self._secrets, self._resources = answer.acceptSecrets, answer.acceptResources
            self._supports_preview = answer.supportsPreview

    # -- resources

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
    ) -> Diff:
        """The provider's verdict on a change."""
        if not self.config_known:
            return Diff(changes=True)
        request = provider_pb2.DiffRequest(
            id=identifier,
            urn=urn,
            name=urn_name(urn),
            type=urn_type(urn),
            old_inputs=self._encode(old_inputs),
            olds=self._encode(old_outputs),
            news=self._encode(news),
            ignoreChanges=ignore,
        )
        try:
            return _to_diff(self._stub.Diff(request))
        except grpc.RpcError as error:
            raise self._failure(error) from error

    def create(
        self, urn: str, inputs: Properties, timeout: float, *, preview: bool
    ) -> tuple[str, Properties]:
        """Create a resource: its id and its outputs. A preview may know neither."""
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
            raise ProviderError(f"provider '{self.package}' created a resource and gave it no id")
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
        """Update a resource in place: its new outputs."""
        if preview and not self.config_known:
            return {}
        if preview and not self._supports_preview:
            return dict(inputs)
        request = provider_pb2.UpdateRequest(
            id=identifier,
            urn=urn,
            name=urn_name(urn),
            type=urn_type(urn),
            old_inputs=self._encode(old_inputs),
            olds=self._encode(old_outputs),
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
            properties=self._encode(outputs),
            old_inputs=self._encode(inputs),
            timeout=timeout,
        )
        try:
            self._stub.Delete(request)
        except grpc.RpcError as error:
            raise self._failure(error) from error

    def read(
        self, urn: str, identifier: str, inputs: Properties, outputs: Properties, timeout: float = 0.0
    ) -> ReadResult:
        """The resource as it is now."""
        if not self.config_known:
            return ReadResult(identifier, {}, {})
        request = provider_pb2.ReadRequest(
            id=identifier,
            urn=urn,
            name=urn_name(urn),
            type=urn_type(urn),
            inputs=self._encode(inputs),
            properties=self._encode(outputs),
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
        """Call a function: its result, and (property, reason) for each argument that is wrong."""
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

    # -- life

    def version(self) -> str:
        """The plugin's own version; empty when it does not say."""
        try:
            answer = self._stub.GetPluginInfo(_EMPTY)
        except grpc.RpcError:
            return ""
        return str(answer.version)

    def cancel(self) -> None:
        """Ask the provider to give up what it is doing (advisory)."""
        try:
            self._stub.Cancel(_EMPTY, timeout=1.0)
        except grpc.RpcError:
            return

    def disconnect(self) -> None:
        """Drop the connection; the process is its owner's to end."""
        self._channel.close()

    # -- marshalling

    def _encode(self, properties: Mapping[str, Any]) -> struct_pb2.Struct:
        return values.encode(properties, secrets=self._secrets, resources=self._resources)

    def _decode(self, struct: struct_pb2.Struct, like: Properties) -> Properties:
        result = values.decode(struct)
        if not self._secrets:
            values.keep_secrets_of(result, like)
        return result

    def _failure(self, error: grpc.RpcError, inputs: Properties | None = None) -> ProviderError:
        message = clean_message(error.details() or str(error.code()))
        if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
            tail = "\n".join(self._plugin.stderr) if self._plugin is not None else ""
            if self._plugin is None or not self._plugin.alive:
                return ProviderStoppedError(
                    f"provider '{self.package}' has stopped{': ' + tail if tail else ''}"
                )
        for detail in _details(error):
            failed = provider_pb2.ErrorResourceInitFailed()
            if detail.Unpack(failed):
                message = "; ".join(failed.reasons) or message
                partial = InitFailedError(message, failed)
                if inputs is not None and not self._secrets:
                    values.keep_secrets_of(partial.properties, inputs)
                return partial
        return ProviderError(message)


_EMPTY = empty_pb2.Empty()


def _details(error: grpc.RpcError) -> Sequence[Any]:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            return list(status_pb2.Status.FromString(value).details)
    return []


def _to_diff(answer: provider_pb2.DiffResponse) -> Diff:
    changes = {
        provider_pb2.DiffResponse.DIFF_NONE: False,
        provider_pb2.DiffResponse.DIFF_SOME: True,
    }.get(answer.changes)
    detailed = None
    if answer.hasDetailedDiff and answer.detailedDiff:
        kinds = provider_pb2.PropertyDiff
        replacing = (kinds.ADD_REPLACE, kinds.DELETE_REPLACE, kinds.UPDATE_REPLACE)
        detailed = {path: item.kind in replacing for path, item in answer.detailedDiff.items()}
    return Diff(
        changes=changes,
        replace_keys=tuple(answer.replaces),
        changed_keys=tuple(answer.diffs),
        stable_keys=tuple(answer.stables),
        delete_before_replace=answer.deleteBeforeReplace,
        detailed=detailed,
    )


_WRAPPED = re.compile(
    r"^(?:Unexpected <class '[^']*'>: |Exception (?:calling application|iterating responses): )"
)
_STACK = re.compile(
    r":?\s*\n?(?:Traceback \(most recent call last\):\n)?(?:\s*File \"[^\"]+\", line \d+.*)", re.S
)
_LAST_LINE = re.compile(r"^(?:[\w.]+(?:Error|Exception|Warning|Exit)|[\w.]*Exception): ", re.M)


def clean_message(text: str) -> str:
    """A provider's message without the stack that Python providers put around it."""
    text = _WRAPPED.sub("", text.strip())
    if text.startswith("Traceback (most recent call last):"):
        lines = text.splitlines()
        starts = [i for i, line in enumerate(lines) if i and not line.startswith((" ", "Traceback"))]
        text = "\n".join(lines[starts[-1] :]) if starts else lines[-1]
        return _LAST_LINE.sub("", text, count=1).strip() or text.strip()
    return _STACK.split(text, maxsplit=1)[0].strip() or text
