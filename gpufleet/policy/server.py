"""Server of a checkout's rules over Pulumi's Analyzer protocol, for the Pulumi CLI and the embedded engine.

The server of the policy SDK unpacks every resource again for each policy, which with sixty rules takes longer
than the preview. It also supports only one level per policy, but an exempted violation is advisory. Therefore
this module implements the protocol (docs/adr).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from concurrent import futures
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime import get_config_env
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc, plugin_pb2

from gpufleet.containment import fleet_file_of_settings
from gpufleet.errors import GpufleetError, SpecError
from gpufleet.policy import wire
from gpufleet.policy.evaluation import RuleEvaluator, RuleViolation
from gpufleet.policy.fleet import FLEET_FILE_KEY, StackOfFleet, open_stack
from gpufleet.policy.pack import load_rules
from gpufleet.policy.report import REPORT, write_report
from gpufleet.policy.rule import Enforcement, Rule
from gpufleet.policy.settings import PackConfig, configure
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack
from gpufleet.spec.models import FleetSpec
from gpufleet.spec.source import SourceMap

PACK = "gpufleet"
VERSION = "0.0.1"  # the CLI shows the one of PulumiPolicy.yaml
MOST_BYTES = 400 * 1024 * 1024
DOCUMENTATION = "docs/reference/rules.md"

_LEVELS: dict[Enforcement, Any] = {
    "advisory": analyzer_pb2.ADVISORY,
    "mandatory": analyzer_pb2.MANDATORY,
    "disabled": analyzer_pb2.DISABLED,
    "remediate": analyzer_pb2.REMEDIATE,
}
_LEVEL_NAMES = {number: name for name, number in _LEVELS.items()}
_SEVERITIES = {
    "low": analyzer_pb2.POLICY_SEVERITY_LOW,
    "medium": analyzer_pb2.POLICY_SEVERITY_MEDIUM,
    "high": analyzer_pb2.POLICY_SEVERITY_HIGH,
    "critical": analyzer_pb2.POLICY_SEVERITY_CRITICAL,
}


def serve(root: Path) -> None:
    """Print the port and serve the rules of the checkout `root` until the process stops."""
    rules = load_rules(root)
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=4),
        options=[
            ("grpc.max_receive_message_length", MOST_BYTES),
            ("grpc.max_send_message_length", MOST_BYTES),
        ],
    )
    analyzer_pb2_grpc.add_AnalyzerServicer_to_server(AnalyzerService(root, rules), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    threading.Event().wait()


class AnalyzerService(analyzer_pb2_grpc.AnalyzerServicer):
    """The rules of one checkout for one run of one stack."""

    def __init__(self, root: Path, rules: Iterable[Rule[Any]]) -> None:
        self._root = root
        self._rules = tuple(rules)
        self._pack_config: dict[str, PackConfig] = {}
        self._stack: dict[str, Any] = {
            "project": os.environ.get("PULUMI_PROJECT", ""),
            "stack": os.environ.get("PULUMI_STACK", ""),
            "preview": os.environ.get("PULUMI_DRY_RUN", "true") == "true",
            "config": dict(get_config_env()),
        }
        self._declared: dict[str, Resource] = {}
        self._found: dict[str, list[RuleViolation]] = {}
        self._lock = threading.Lock()

    @cached_property
    def _fleet(self) -> StackOfFleet:
        about = self._stack
        fleet_file_of_settings(about["config"].get(FLEET_FILE_KEY, ""), self._root)
        return open_stack(
            self._root, about["project"], about["stack"], about["config"], preview=about["preview"]
        )

    def _spec_and_source(self) -> tuple[FleetSpec | None, SourceMap | None]:
        loaded = self._fleet.loaded
        return (loaded.spec, loaded.source) if loaded else (None, None)

    @cached_property
    def _evaluator(self) -> RuleEvaluator:
        spec, source = self._spec_and_source()
        configured = configure(self._rules, spec, source, self._pack_config)
        return RuleEvaluator(configured, self._fleet.shared, spec.exemptions if spec else ())

    def _forget(self) -> None:
        self.__dict__.pop("_evaluator", None)

    def _ready(self, context: grpc.ServicerContext) -> RuleEvaluator:
        try:
            with self._lock:
                return self._evaluator
        except SpecError as error:
            lines = [f"{f.file}:{f.line}: {f.field}: {f.message}; {f.remedy}" for f in error.findings]
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "\n".join([error.message, *lines]))
        except GpufleetError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{error.message}; {error.remedy}")
        raise AssertionError("abort does not return")

    # -- the protocol

    def Handshake(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return an empty response."""
        return analyzer_pb2.AnalyzerHandshakeResponse()

    def ConfigureStack(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Set the stack of the run."""
        self._stack = {
            "project": request.project,
            "stack": request.stack,
            "preview": request.dry_run,
            "config": {
                key: value for key, value in request.config.items() if key not in request.config_secret_keys
            },
        }
        self.__dict__.pop("_fleet", None)
        self._forget()
        return analyzer_pb2.AnalyzerStackConfigureResponse()

    def Configure(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Set the final level and settings of each rule: the engine merges its own into the initial ones."""
        self._pack_config = {
            name: PackConfig(_LEVEL_NAMES[config.enforcementLevel], wire.properties(config.properties))
            for name, config in request.policyConfig.items()
        }
        self._forget()
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return the pack's version."""
        return plugin_pb2.PluginInfo(version=VERSION)

    def GetAnalyzerInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return the rules with metadata and settings, without change rules, which a pack cannot evaluate."""
        rules = [rule for rule in self._rules if rule.scope != "change"]
        return analyzer_pb2.AnalyzerInfo(
            name=PACK,
            displayName="gpufleet",
            version=VERSION,
            supportsConfig=True,
            description="Budget, cost tags, capacity and security of GPU fleets.",
            provider="aws",
            policies=[_info(rule) for rule in rules],
            initialConfig=self._initial_config(),
        )

    def _initial_config(self) -> dict[str, Any]:
        """Return the policies of the fleet file. The engine merges `--policy-pack-config` into them.

        An invalid fleet file is ignored here and reported with the first resource.
        """
        try:
            with self._lock:
                configured = configure(self._rules, *self._spec_and_source())
        except GpufleetError:
            return {}
        initial = {}
        for each in configured:
            config = initial[each.rule.name] = analyzer_pb2.PolicyConfig(
                enforcementLevel=_LEVELS[each.enforcement]
            )
            config.properties.update(each.settings.model_dump(mode="json"))
        return initial

    def Remediate(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Fix a resource with the rules at level `remediate`, one after the other."""
        evaluator = self._ready(context)
        response = analyzer_pb2.RemediateResponse()
        current = analyzer_pb2.AnalyzeRequest()
        current.CopyFrom(request)
        for rule, about in evaluator.remediations(wire.resource(request)):
            resource = wire.resource(current)
            changed = rule.remediate(resource, about) if rule.remediate else None
            if not changed:
                continue
            for key, value in changed.items():
                wire.write(current.properties, key, value, resource.secrets)
            response.remediations.add(
                policyName=rule.name,
                policyPackName=PACK,
                policyPackVersion=VERSION,
                description=rule.title,
                properties=current.properties,
            )
        return response

    def Analyze(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Evaluate the rules for one resource."""
        evaluator = self._ready(context)
        resource = wire.resource(request)
        self._declared[resource.urn] = resource
        found = self._found[resource.urn] = evaluator.resource(resource)
        return analyzer_pb2.AnalyzeResponse(diagnostics=[_diagnostic(each) for each in found])

    def AnalyzeStack(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Evaluate the rules for the whole stack."""
        evaluator = self._ready(context)
        stack = Stack(wire.resource(each, self._declared.get(each.urn)) for each in request.resources)
        found = evaluator.stack(stack)
        report = os.environ.get(REPORT)
        if report:
            write_report(Path(report), stack, [*chain.from_iterable(self._found.values()), *found])
        return analyzer_pb2.AnalyzeResponse(diagnostics=[_diagnostic(each) for each in found])

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return at once: an evaluation takes milliseconds."""
        return empty_pb2.Empty()


def _diagnostic(violation: RuleViolation) -> Any:
    rule = violation.rule
    return analyzer_pb2.AnalyzeDiagnostic(
        policyName=rule.name,
        policyPackName=PACK,
        policyPackVersion=VERSION,
        description=rule.title,
        message=violation.message,
        enforcementLevel=_LEVELS[violation.level],
        urn=violation.urn,
        severity=_SEVERITIES[rule.severity],
    )


def _info(rule: Rule[Any]) -> Any:
    schema = rule.settings.model_json_schema()
    info = analyzer_pb2.PolicyInfo(
        name=rule.name,
        displayName=rule.title,
        description=rule.description,
        enforcementLevel=_LEVELS[rule.enforcement],
        severity=_SEVERITIES[rule.severity],
        policy_type=(
            analyzer_pb2.POLICY_TYPE_RESOURCE if rule.scope == "resource" else analyzer_pb2.POLICY_TYPE_STACK
        ),
        tags=[rule.group],
        remediation_steps=rule.fix,
        url=f"{DOCUMENTATION}#{rule.name}",
    )
    for name, each in schema.get("properties", {}).items():
        info.configSchema.properties.update({name: each})
    if rule.framework is not None:
        info.framework.name = rule.framework.name
        info.framework.reference = rule.framework.reference
        info.framework.specification = rule.framework.control
    return info
