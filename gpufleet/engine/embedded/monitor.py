"""Pulumi's ResourceMonitor service, which the program's SDK calls."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urlparse

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2, resource_pb2, resource_pb2_grpc

from gpufleet.engine.embedded import values
from gpufleet.engine.embedded.context import RunContext
from gpufleet.engine.embedded.deployment import Deployment
from gpufleet.engine.embedded.goal import Goal, aliases_of, property_dependencies_of, timeouts_of
from gpufleet.engine.embedded.inheritance import Inheritance
from gpufleet.engine.embedded.provider_choice import set_plugin
from gpufleet.engine.embedded.refusal import RefusalRecorder, refuse_unsupported
from gpufleet.engine.embedded.registrar import Registrar
from gpufleet.engine.embedded.urns import is_provider_type, package_of
from gpufleet.engine.errors import ProviderError, StepFailedError, UnsupportedError

# All features are reported as supported, so that the engine rejects their use with its own message; an SDK
# without them would ask its user to update the CLI.
_FEATURES = {
    "secrets": resource_pb2.RESOURCE_MONITOR_FEATURE_SECRETS,
    "resourceReferences": resource_pb2.RESOURCE_MONITOR_FEATURE_RESOURCE_REFERENCES,
    "aliasSpecs": resource_pb2.RESOURCE_MONITOR_FEATURE_ALIAS_SPECS,
    "deletedWith": resource_pb2.RESOURCE_MONITOR_FEATURE_DELETED_WITH,
    "replaceWith": resource_pb2.RESOURCE_MONITOR_FEATURE_REPLACE_WITH,
    "transforms": resource_pb2.RESOURCE_MONITOR_FEATURE_TRANSFORMS,
    "invokeTransforms": resource_pb2.RESOURCE_MONITOR_FEATURE_INVOKE_TRANSFORMS,
    "parameterization": resource_pb2.RESOURCE_MONITOR_FEATURE_PARAMETERIZATION,
    "resourceHooks": resource_pb2.RESOURCE_MONITOR_FEATURE_RESOURCE_HOOKS,
}


class Monitor(resource_pb2_grpc.ResourceMonitorServicer):
    """Decodes requests, passes them to the deployment, encodes the answers."""

    def __init__(self, context: RunContext, deployment: Deployment, registrar: Registrar) -> None:
        self._context = context
        self._deployment = deployment
        self._registrar = registrar
        self._inheritance = Inheritance()
        self._packages: dict[str, tuple[str, str, str]] = {}
        self._lock = threading.Lock()

    # -- features

    def SupportsFeature(  # noqa: N802 - gRPC method names
        self, request: resource_pb2.SupportsFeatureRequest, context: grpc.ServicerContext
    ) -> resource_pb2.SupportsFeatureResponse:
        """Return whether a feature is supported, by its old name."""
        return resource_pb2.SupportsFeatureResponse(hasSupport=request.id in _FEATURES)

    def GetDeploymentInfo(  # noqa: N802
        self, request: empty_pb2.Empty, context: grpc.ServicerContext
    ) -> resource_pb2.DeploymentInfo:
        """Return the run's properties, as newer SDKs request them."""
        asked = self._context.request
        return resource_pb2.DeploymentInfo(
            project=asked.project,
            stack=asked.stack,
            organization="organization",
            config=dict(asked.config),
            configSecretKeys=sorted(asked.secret_config),
            dryRun=self._context.program_previews,
            parallel=asked.parallel,
            supportedFeatures=list(_FEATURES.values()),
        )

    # -- resources

    def RegisterResource(  # noqa: N802
        self, request: resource_pb2.RegisterResourceRequest, context: grpc.ServicerContext
    ) -> resource_pb2.RegisterResourceResponse:
        """Register one resource; return when that is done (or failed)."""
        with RefusalRecorder(self._deployment, context):
            goal = self._goal(request)
            outcome = self._registrar.register(goal)
            self._inheritance.remember(outcome.urn, goal, dict(request.providers))
            response = resource_pb2.RegisterResourceResponse(
                urn=outcome.urn,
                # A reference to a provider contains its ID, known or not.
                id=""
                if outcome.id == values.UNKNOWN_WIRE and not is_provider_type(goal.type)
                else outcome.id,
                result=outcome.result,
                unknown=outcome.unknown,
            )
            if goal.custom:
                response.object.CopyFrom(values.encode(outcome.outputs, resources=request.acceptResources))
            return response

    def _goal(self, request: resource_pb2.RegisterResourceRequest) -> Goal:
        refuse_unsupported(request)
        found: dict[str, set[str]] = {}
        inputs = values.with_hashes(values.decode(request.object, found))
        optional = {
            name: getattr(request, name) if request.HasField(name) else None
            for name in ("protect", "retainOnDelete")
        }
        decided = request.deleteBeforeReplaceDefined or request.deleteBeforeReplace
        try:
            timeouts = timeouts_of(request.customTimeouts)
        except ValueError as error:
            raise StepFailedError(f"{request.name}: custom timeout {error}") from error
        goal = Goal(
            type=request.type,
            name=request.name,
            custom=request.custom,
            inputs=inputs,
            parent=request.parent,
            dependencies=sorted(set(request.dependencies)),
            property_dependencies=property_dependencies_of(request, inputs, found),
            provider=request.provider,
            protect=optional["protect"],
            retain_on_delete=optional["retainOnDelete"],
            delete_before_replace=request.deleteBeforeReplace if decided else None,
            deleted_with=request.deletedWith,
            import_id=request.importId,
            ignore_changes=list(request.ignoreChanges),
            replace_on_changes=list(request.replaceOnChanges),
            additional_secret_outputs=list(request.additionalSecretOutputs),
            aliases=aliases_of(request),
            timeouts=timeouts,
            source_position=self._position(request),
        )
        self._inheritance.apply(goal, dict(request.providers))
        name, version, url = self._package(request.packageRef, request.type)
        version, url = request.version or version, request.pluginDownloadURL or url
        if is_provider_type(goal.type):
            set_plugin(goal.inputs, version, url)
        elif goal.custom and not goal.provider:
            goal.provider = self._registrar.providers.default(name, version, url)
        return goal

    def _package(self, reference: str, type_: str) -> tuple[str, str, str]:
        if not reference:
            return package_of(type_), "", ""
        with self._lock:
            known = self._packages.get(reference)
        if known is None:
            raise StepFailedError(f"unknown package reference {reference}")
        return known

    def _position(self, request: Any) -> str:
        if not request.HasField("sourcePosition"):
            return ""
        path = Path(unquote(urlparse(request.sourcePosition.uri).path))
        root = self._context.request.project_root.resolve()
        if not path.is_relative_to(root):
            return ""
        column = f",{request.sourcePosition.column}" if request.sourcePosition.column else ""
        return f"project:///{path.relative_to(root).as_posix()}#{request.sourcePosition.line}{column}"

    def RegisterResourceOutputs(  # noqa: N802
        self, request: resource_pb2.RegisterResourceOutputsRequest, context: grpc.ServicerContext
    ) -> empty_pb2.Empty:
        """Store the outputs of a component (or the stack)."""
        with RefusalRecorder(self._deployment, context):
            self._deployment.register_outputs(request.urn, values.decode(request.outputs))
        return empty_pb2.Empty()

    def ReadResource(  # noqa: N802
        self, request: resource_pb2.ReadResourceRequest, context: grpc.ServicerContext
    ) -> resource_pb2.ReadResourceResponse:
        """Read a resource that this program does not own."""
        with RefusalRecorder(self._deployment, context):
            name, version, url = self._package(request.packageRef, request.type)
            if request.type == "pulumi:pulumi:StackReference":
                raise UnsupportedError(f"stack reference '{request.name}'")
            provider = request.provider or self._registrar.providers.default(
                name, request.version or version, request.pluginDownloadURL or url
            )
            goal = Goal(
                type=request.type,
                name=request.name,
                custom=True,
                inputs=values.decode(request.properties),
                parent=request.parent,
                dependencies=sorted(set(request.dependencies)),
                provider=provider,
                additional_secret_outputs=list(request.additionalSecretOutputs),
                source_position=self._position(request),
            )
            outcome = self._registrar.read(goal, request.id)
            return resource_pb2.ReadResourceResponse(
                urn=outcome.urn,
                id=outcome.id,
                result=outcome.result,
                unknown=outcome.unknown,
                properties=values.encode(outcome.outputs, resources=request.acceptResources),
            )

    # -- functions

    def Invoke(  # noqa: N802
        self, request: resource_pb2.ResourceInvokeRequest, context: grpc.ServicerContext
    ) -> resource_pb2.ResourceInvokeResponse:
        """Call a provider's function."""
        with RefusalRecorder(self._deployment, context):
            args = values.decode(request.args)
            if request.tok == "pulumi:pulumi:getResource":
                return _invoke_response(self._deployment.resource_by_urn(args), ())
            name, version, url = self._package(request.packageRef, request.tok)
            reference = request.provider or self._inheritance.provider_for(request.parent, name)
            if not reference:
                reference = self._registrar.providers.default(
                    name, request.version or version, request.pluginDownloadURL or url
                )
            provider = self._deployment.providers.get(reference)
            try:
                result, failures = provider.invoke(request.tok, args, preview=self._context.dry_run)
            except ProviderError as error:
                raise StepFailedError(f"invocation of {request.tok} failed: {error.message}") from error
            return _invoke_response(result, failures)

    def RegisterPackage(  # noqa: N802
        self, request: resource_pb2.RegisterPackageRequest, context: grpc.ServicerContext
    ) -> resource_pb2.RegisterPackageResponse:
        """Return the reference of a package; the same package always gets the same one."""
        with RefusalRecorder(self._deployment, context):
            if request.HasField("parameterization") or request.HasField("extension"):
                raise UnsupportedError(f"parameterized package '{request.name}'")
            package = (request.name, request.version, request.download_url)
            with self._lock:
                for reference, known in self._packages.items():
                    if known == package:
                        return resource_pb2.RegisterPackageResponse(ref=reference)
                reference = str(uuid.uuid4())
                self._packages[reference] = package
            return resource_pb2.RegisterPackageResponse(ref=reference)

    def SignalAndWaitForShutdown(  # noqa: N802
        self, request: empty_pb2.Empty, context: grpc.ServicerContext
    ) -> empty_pb2.Empty:
        """Return at once: without callbacks the program need not wait."""
        return empty_pb2.Empty()

    # -- features of the CLI only

    def _refuse(self, what: str, context: grpc.ServicerContext) -> NoReturn:
        with RefusalRecorder(self._deployment, context):
            raise UnsupportedError(what)
        raise AssertionError("unreachable")

    def Call(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Reject methods of resources."""
        self._refuse(f"calling the method {request.tok}", context)

    def StreamInvoke(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Reject streaming functions."""
        self._refuse(f"streaming the function {request.tok}", context)

    def RegisterStackTransform(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Reject stack transforms."""
        self._refuse("a stack transform", context)

    def RegisterStackInvokeTransform(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Reject invoke transforms."""
        self._refuse("an invoke transform", context)

    def RegisterResourceHook(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Reject resource hooks."""
        self._refuse(f"resource hook '{request.name}'", context)

    def RegisterErrorHook(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Reject error hooks."""
        self._refuse(f"error hook '{request.name}'", context)


def _invoke_response(
    result: dict[str, Any], failures: tuple[tuple[str, str], ...]
) -> resource_pb2.ResourceInvokeResponse:
    response = resource_pb2.ResourceInvokeResponse(
        failures=[provider_pb2.CheckFailure(property=name, reason=reason) for name, reason in failures]
    )
    getattr(response, "return").CopyFrom(values.encode(result))
    return response
