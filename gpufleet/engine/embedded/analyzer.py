"""A running policy pack: Pulumi's Analyzer calls in plain Python.

The calls, their order and the use of the answers follow Pulumi's
sdk/go/common/resource/plugin/analyzer_plugin.go and pkg/engine/update.go. The version in PulumiPolicy.yaml
has precedence over the version that the pack reports.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import grpc
from google.protobuf import empty_pb2, json_format
from msgspec import Struct
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

from gpufleet.engine.api import PolicyEvent, PolicySeverity
from gpufleet.engine.embedded import values
from gpufleet.engine.embedded.connection import CHANNEL_OPTIONS, is_still_running, is_transport_failure
from gpufleet.engine.embedded.context import RunContext
from gpufleet.engine.embedded.policy_project import PackProject, pack_environment
from gpufleet.engine.embedded.provider_errors import clean_message
from gpufleet.engine.embedded.values import Properties
from gpufleet.engine.errors import PolicyPackFailedError
from gpufleet.engine.plugins import PluginProcess
from gpufleet.engine.policy_config import (
    LEVELS,
    PolicySchema,
    PolicySetting,
    reconcile,
    unknown_policies,
)
from gpufleet.errors import InputError

_NUMBERS = {
    "advisory": analyzer_pb2.ADVISORY,
    "mandatory": analyzer_pb2.MANDATORY,
    "disabled": analyzer_pb2.DISABLED,
    "remediate": analyzer_pb2.REMEDIATE,
}
_LEVELS: dict[int, str] = {number: name for name, number in _NUMBERS.items()}
_SEVERITIES: dict[int, PolicySeverity] = {
    analyzer_pb2.POLICY_SEVERITY_LOW: "low",
    analyzer_pb2.POLICY_SEVERITY_MEDIUM: "medium",
    analyzer_pb2.POLICY_SEVERITY_HIGH: "high",
    analyzer_pb2.POLICY_SEVERITY_CRITICAL: "critical",
}
_EMPTY = empty_pb2.Empty()


class Remediation(Struct, frozen=True):
    """One policy's answer: new inputs, or (`diagnostic`) why it could not return any."""

    pack: str
    policy: str
    version: str
    description: str
    inputs: Properties
    diagnostic: str = ""


class Analyzer:
    """A started and configured pack. All methods are thread-safe."""

    def __init__(self, pack: PackProject, context: RunContext) -> None:
        self._pack = pack
        self._label = f"policy pack {pack.folder.name}"
        self._process = PluginProcess(
            self._label,
            (str(pack.python), "-u", "-m", "pulumi.policy"),
            context.engine_address,
            context.processes,
            env=pack_environment(pack, {**context.env, **_stack_environment(context)}),
            cwd=pack.folder,
            on_line=lambda line: context.reporter.log("info", line),
            arguments=(str(pack.program),),
        )
        self._channel = grpc.insecure_channel(f"127.0.0.1:{self._process.port}", options=CHANNEL_OPTIONS)
        self._stub = analyzer_pb2_grpc.AnalyzerStub(self._channel)
        self._introduce(context)
        info = self._call("GetAnalyzerInfo", lambda: self._stub.GetAnalyzerInfo(_EMPTY))
        self.name: str = info.name
        self._version: str = pack.version or info.version
        self._severities = {policy.name: _SEVERITIES.get(policy.severity, "") for policy in info.policies}
        self._configure(info, context)

    def _introduce(self, context: RunContext) -> None:
        folder, request = str(self._pack.folder), context.request
        handshake = analyzer_pb2.AnalyzerHandshakeRequest(
            engine_address=context.engine_address, root_directory=folder, program_directory=folder
        )
        stack = analyzer_pb2.AnalyzerStackConfigureRequest(
            stack=request.stack,
            project=request.project,
            organization="organization",
            dry_run=context.dry_run,
            config=dict(request.config),
            config_secret_keys=sorted(request.secret_config),
        )
        self._call("Handshake", lambda: self._stub.Handshake(handshake), optional=True)
        self._call("ConfigureStack", lambda: self._stub.ConfigureStack(stack), optional=True)

    def _configure(self, info: analyzer_pb2.AnalyzerInfo, context: RunContext) -> None:
        file, given = self._pack.config_file, self._pack.settings
        if not info.supportsConfig:
            if file is not None:
                raise InputError(
                    f"{file}: policy pack '{self.name}' supports no configuration",
                    remedy="remove the configuration, or add support for it to the pack",
                )
            return
        policies = {policy.name: self._schema(policy) for policy in info.policies}
        initial = {
            name: PolicySetting(
                self._level(item.enforcementLevel), json_format.MessageToDict(item.properties)
            )
            for name, item in info.initialConfig.items()
        }
        settings = reconcile(policies, initial, given, pack=self.name, file=file)
        if file is not None:
            for warning in unknown_policies(policies, given, file):
                context.reporter.log("warning", warning)
        if settings:
            request = analyzer_pb2.ConfigureAnalyzerRequest()
            for name, setting in settings.items():
                target = request.policyConfig[name]
                target.enforcementLevel = _NUMBERS[setting.level]
                # Present even when empty, as the CLI sends it.
                target.properties.SetInParent()
                target.properties.update(dict(setting.properties))
            self._call("Configure", lambda: self._stub.Configure(request))

    def _schema(self, policy: analyzer_pb2.PolicyInfo) -> PolicySchema:
        schema = policy.configSchema
        properties = json_format.MessageToDict(schema.properties)
        properties["enforcementLevel"] = {"type": "string", "enum": list(LEVELS)}
        return PolicySchema(self._level(policy.enforcementLevel), properties, tuple(schema.required))

    def _level(self, number: int) -> str:
        if number not in _LEVELS:
            raise PolicyPackFailedError(f"{self._label}: {number} is not an enforcement level")
        return _LEVELS[number]

    # -- checks

    def remediate(self, request: analyzer_pb2.AnalyzeRequest) -> list[Remediation]:
        """Return what the pack's policies change in a resource, in their order."""
        answer = self._call(
            "Remediate", lambda: self._stub.Remediate(request), optional=True, urn=request.urn
        )
        return [
            Remediation(
                pack=item.policyPackName,
                policy=item.policyName,
                version=self._pack.version or item.policyPackVersion,
                description=item.description,
                inputs=values.decode(item.properties),
                diagnostic=item.diagnostic,
            )
            for item in (answer.remediations if answer is not None else ())
        ]

    def analyze(self, request: analyzer_pb2.AnalyzeRequest) -> Callable[[], list[PolicyEvent]]:
        """Request the violations of one resource; the returned function waits for them."""
        pending = self._stub.Analyze.future(request)

        def wait() -> list[PolicyEvent]:
            answer = self._call("Analyze", pending.result, urn=request.urn)
            return [self._event(item, request.urn) for item in answer.diagnostics]

        return wait

    def analyze_stack(
        self, request: analyzer_pb2.AnalyzeStackRequest, where: Callable[[str], str]
    ) -> Callable[[], list[PolicyEvent]]:
        """Request the violations of the stack; `where` maps a URN in an answer to a resource."""
        pending = self._stub.AnalyzeStack.future(request)

        def wait() -> list[PolicyEvent]:
            answer = self._call("AnalyzeStack", pending.result, optional=True)
            found = answer.diagnostics if answer is not None else ()
            return [self._event(item, where(item.urn)) for item in found]

        return wait

    def _event(self, item: analyzer_pb2.AnalyzeDiagnostic, urn: str) -> PolicyEvent:
        level = self._level(item.enforcementLevel)
        if level == "disabled":
            raise PolicyPackFailedError(f"{self._label}: policy '{item.policyName}' is disabled and reported")
        return PolicyEvent(
            pack=item.policyPackName,
            policy=item.policyName,
            # What a remediation did not correct, or (in a stack policy) cannot, is mandatory.
            enforcement="advisory" if level == "advisory" else "mandatory",
            message=item.message.strip(),
            urn=urn,
            version=self._pack.version or item.policyPackVersion,
            severity=_SEVERITIES.get(item.severity) or self._severities.get(item.policyName, ""),
            description=item.description,
        )

    # -- lifecycle

    def cancel(self) -> None:
        """Request the pack to abandon what it is doing (advisory)."""
        try:
            self._stub.Cancel(_EMPTY, timeout=1.0)
        except grpc.RpcError:
            return

    def disconnect(self) -> None:
        """Close the connection; the process ends with its group."""
        self._channel.close()

    def _call(self, what: str, call: Callable[[], Any], *, optional: bool = False, urn: str = "") -> Any:
        try:
            return call()
        except grpc.RpcError as failure:
            error = cast("grpc.Call", failure)
            if optional and error.code() == grpc.StatusCode.UNIMPLEMENTED:
                return None
            if error.code() == grpc.StatusCode.INVALID_ARGUMENT:
                # The pack works and reports that its user's input is invalid.
                raise InputError(f"{self._label}: {clean_message(error.details() or '')}") from failure
            at = f" of {urn}" if urn else ""
            if is_transport_failure(failure) and not is_still_running(self._process):
                output = self._process.last_lines()
                tail = f": it printed\n{output}" if output else ""
                message = f"{self._label} stopped during {what}{at}{tail}"
            else:
                message = f"{self._label} failed in {what}{at}: {clean_message(error.details() or '')}"
            raise PolicyPackFailedError(
                message, remedy="correct the pack and run again: without its policies a run stops"
            ) from failure


def _stack_environment(context: RunContext) -> dict[str, str]:
    request = context.request
    return {
        "PULUMI_ORGANIZATION": "organization",
        "PULUMI_PROJECT": request.project,
        "PULUMI_STACK": request.stack,
        "PULUMI_DRY_RUN": "true" if context.dry_run else "false",
        "PULUMI_CONFIG": json.dumps(dict(request.config)),
    }
