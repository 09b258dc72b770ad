"""Resources and the stack in the messages of the Analyzer protocol, for policy packs.

Secrets and unknown values are kept; a reference to a resource is sent as its id (or URN), as the Pulumi CLI
does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pulumi.runtime.proto import analyzer_pb2

from gpufleet.engine.embedded import values
from gpufleet.engine.embedded.resource import ResourceState
from gpufleet.engine.embedded.urns import urn_name
from gpufleet.engine.embedded.values import Properties


def resource_request(
    state: ResourceState,
    provider: ResourceState | None,
    ignore_changes: Sequence[str],
    delete_before_replace: bool | None,
    aliases: Sequence[str],
    *,
    internal: bool,
) -> analyzer_pb2.AnalyzeRequest:
    """Return a resource with its checked inputs. `internal` keeps the engine's `__` properties, which a
    remediation must return.
    """
    return analyzer_pb2.AnalyzeRequest(
        urn=state.urn,
        type=state.type,
        name=urn_name(state.urn),
        properties=values.encode(_visible(state.inputs, internal=internal), resources=False),
        options=_options(state, ignore_changes, delete_before_replace, aliases),
        provider=_provider(provider),
    )


def stack_resource(
    state: ResourceState,
    provider: ResourceState | None,
    delete_before_replace: bool | None,
    aliases: Sequence[str],
) -> analyzer_pb2.AnalyzerResource:
    """Return a resource after the run, with its outputs and dependencies."""
    dependencies = {
        key: analyzer_pb2.AnalyzerPropertyDependencies(urns=urns)
        for key, urns in state.property_dependencies.items()
        if urns
    }
    return analyzer_pb2.AnalyzerResource(
        urn=state.urn,
        type=state.type,
        name=urn_name(state.urn),
        properties=values.encode(_visible(state.outputs, internal=False), resources=False),
        options=_options(state, state.ignore_changes, delete_before_replace, aliases),
        provider=_provider(provider),
        parent=state.parent,
        dependencies=state.dependencies,
        propertyDependencies=dependencies,
    )


def _visible(properties: Mapping[str, object], *, internal: bool) -> Properties:
    return {key: value for key, value in properties.items() if internal or not key.startswith("__")}


def _provider(state: ResourceState | None) -> analyzer_pb2.AnalyzerProviderResource | None:
    if state is None:
        return None
    return analyzer_pb2.AnalyzerProviderResource(
        urn=state.urn,
        type=state.type,
        name=urn_name(state.urn),
        properties=values.encode(_visible(state.inputs, internal=False), resources=False),
    )


def _options(
    state: ResourceState,
    ignore_changes: Iterable[str],
    delete_before_replace: bool | None,
    aliases: Sequence[str],
) -> analyzer_pb2.AnalyzerResourceOptions:
    timeouts = state.custom_timeouts
    return analyzer_pb2.AnalyzerResourceOptions(
        protect=state.protect,
        ignoreChanges=ignore_changes,
        deleteBeforeReplace=bool(delete_before_replace),
        deleteBeforeReplaceDefined=delete_before_replace is not None,
        additionalSecretOutputs=state.additional_secret_outputs,
        aliases=aliases,
        customTimeouts=analyzer_pb2.AnalyzerResourceOptions.CustomTimeouts(
            create=timeouts.get("create", 0.0),
            update=timeouts.get("update", 0.0),
            delete=timeouts.get("delete", 0.0),
            read=timeouts.get("read", 0.0),
        ),
        parent=state.parent,
    )
