"""A connection to one provider plugin: handshake, configuration, and marshalling of calls.

It sends what the provider supports (secrets, resource references), restores secret marks that the provider
drops, and turns failures into `ProviderError` with the provider's own message. Source of defaults and
fallbacks: pkg/resource/plugin/provider_plugin.go of Pulumi.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Protocol

import grpc
from google.protobuf import empty_pb2, struct_pb2
from msgspec import Struct
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from gpufleet.engine.embedded import values
from gpufleet.engine.embedded.diffs import ResourceDiff
from gpufleet.engine.embedded.provider_errors import (
    InitFailedError,
    ProviderStoppedError,
    UnknownOutcomeError,
    clean_message,
    details_of,
)
from gpufleet.engine.embedded.urns import PROVIDER_PREFIX, urn_name, urn_type
from gpufleet.engine.embedded.values import Properties
from gpufleet.engine.errors import ProviderError

_DYING_S = 1.0
# Pulumi's own limit (400 MiB): a message is one resource, and some contain whole manifests.
CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", 400 * 1024 * 1024),
    ("grpc.max_send_message_length", 400 * 1024 * 1024),
    # A failed creation returns the partial resource in its trailers, for which Go allows this size. With
    # grpc's default (8 to 16 KiB) a large one was lost, and the next run created it again.
    ("grpc.max_metadata_size", 16 * 1024 * 1024),
    ("grpc.enable_http_proxy", 0),
]


class CheckResult(Struct, frozen=True):
    """Checked inputs, and (property, reason) for each invalid one."""

    inputs: Properties
    failures: tuple[tuple[str, str], ...] = ()


class Plugin(Protocol):
    """The process behind a connection."""

    @property
    def alive(self) -> bool:
        """Return whether it is still running."""
        ...

    def last_lines(self) -> str:
        """Return the last lines that it wrote to stderr: all of them once it has ended."""
        ...


class Connection:
    """One provider process. All methods are thread-safe."""

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
        # A provider with the handshake is newer than previews and must support them.
        self._supports_preview = True
        return True

    # -- configuration

    def check_config(self, urn: str, olds: Properties, news: Properties) -> CheckResult:
        """Validate provider inputs; a provider without CheckConfig accepts them unchanged."""
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
    ) -> ResourceDiff:
        """Return whether a change of configuration needs new resources (`replaces`)."""
        request = provider_pb2.DiffRequest(
            urn=urn,
            name=urn_name(urn),
            type=urn_type(urn),
            old_inputs=values.encode(old_inputs, secrets=False),
            olds=values.encode(old_outputs, secrets=False),
            news=values.encode(news, secrets=False),
        )
        try:
            return to_diff(self._stub.DiffConfig(request))
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNIMPLEMENTED:
                return ResourceDiff(changes=None)
            raise self._failure(error) from error

    def configure(self, urn: str, identifier: str, inputs: Properties) -> None:
        """Configure the provider; with unknown values it stays unconfigured (preview)."""
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

    # -- lifecycle

    def version(self) -> str:
        """Return the plugin's own version; empty if it does not report one."""
        try:
            answer = self._stub.GetPluginInfo(_EMPTY)
        except grpc.RpcError:
            return ""
        return str(answer.version)

    def cancel(self) -> None:
        """Request the provider to abandon what it is doing (advisory)."""
        try:
            self._stub.Cancel(_EMPTY, timeout=1.0)
        except grpc.RpcError:
            return

    def disconnect(self) -> None:
        """Close the connection; the owner of the process ends it."""
        self._channel.close()

    # -- marshalling

    def _encode(self, properties: Mapping[str, Any], *, contents: bool = True) -> struct_pb2.Struct:
        return values.encode(properties, secrets=self._secrets, resources=self._resources, contents=contents)

    def _decode(self, struct: struct_pb2.Struct, like: Properties) -> Properties:
        result = values.decode(struct)
        if not self._secrets:
            values.keep_secrets_of(result, like)
        return result

    def _failure(self, error: grpc.RpcError, inputs: Properties | None = None) -> ProviderError:
        details = error.details() or str(error.code())
        message = clean_message(details)
        if is_transport_failure(error) and not is_still_running(self._plugin):
            tail = self._plugin.last_lines() if self._plugin is not None else ""
            return ProviderStoppedError(f"provider '{self.package}' has stopped: {tail}".rstrip(": "))
        for detail in details_of(error):
            failed = provider_pb2.ErrorResourceInitFailed()
            if detail.Unpack(failed):
                message = "; ".join(failed.reasons) or message
                partial = InitFailedError(message, failed)
                if inputs is not None and not self._secrets:
                    values.keep_secrets_of(partial.properties, inputs)
                return partial
        if error.code() is grpc.StatusCode.ABORTED or is_transport_failure(error):
            return UnknownOutcomeError(message)
        return ProviderError(message)


def is_still_running(plugin: Plugin | None) -> bool:
    """Return whether the process is still running after a broken call; its end may take a moment to show."""
    deadline = time.monotonic() + _DYING_S
    while plugin is not None and plugin.alive:
        if time.monotonic() > deadline:
            return True
        time.sleep(0.02)
    return False


def is_transport_failure(error: grpc.RpcError) -> bool:
    """Return whether a call broke off, rather than being answered with an error."""
    details = error.details() or ""
    return error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED) or any(
        sign in details for sign in ("Stream removed", "Socket closed", "RST_STREAM")
    )


_EMPTY = empty_pb2.Empty()


def to_diff(answer: provider_pb2.DiffResponse) -> ResourceDiff:
    """Return the diff in a DiffResponse."""
    changes = {
        provider_pb2.DiffResponse.DIFF_NONE: False,
        provider_pb2.DiffResponse.DIFF_SOME: True,
    }.get(answer.changes)
    detailed = None
    if answer.hasDetailedDiff and answer.detailedDiff:
        kinds = provider_pb2.PropertyDiff
        replacing = (kinds.ADD_REPLACE, kinds.DELETE_REPLACE, kinds.UPDATE_REPLACE)
        detailed = {path: item.kind in replacing for path, item in answer.detailedDiff.items()}
    return ResourceDiff(
        changes=changes,
        replace_keys=tuple(answer.replaces),
        changed_keys=tuple(answer.diffs),
        delete_before_replace=answer.deleteBeforeReplace,
        detailed=detailed,
    )
