"""Dependents that must be deleted before a resource that is replaced by deleting it first."""

from __future__ import annotations

from gpufleet.engine.embedded.deployment import Deployment
from gpufleet.engine.embedded.diffs import ResourceDiff, apply_replace_on_changes, compare_inputs
from gpufleet.engine.embedded.resource import ResourceState
from gpufleet.engine.embedded.urns import is_provider_type, split_reference
from gpufleet.engine.embedded.values import UNKNOWN, Properties


def dependents_to_replace(
    deployment: Deployment, root: ResourceState
) -> list[tuple[ResourceState, ResourceDiff]]:
    """Return old resources that the replacement of `root` replaces too, dependencies first, and why.

    These are its dependents (direct or not) whose provider would replace them if the properties that come
    from a replaced resource changed; the provider is asked with unknown values. Resources that this run
    has already settled cannot depend on `root`, which it settles only now.
    """
    store = deployment.store
    replaced = {root.urn}
    found: list[tuple[ResourceState, ResourceDiff]] = []
    for state in _dependents(deployment, root):
        if state.urn in store.news or state.urn == root.urn or state.pending_replacement:
            continue
        diff = _replacing_diff(deployment, state, replaced)
        if diff is not None:
            found.append((state, diff))
            replaced.add(state.urn)
    return found


def _dependents(deployment: Deployment, root: ResourceState) -> list[ResourceState]:
    store = deployment.store
    reached = {root.urn}
    found: list[ResourceState] = []
    # The state is in dependency order, so one pass visits every dependent after its dependencies.
    for state in store.olds[store.index_of(root) + 1 :]:
        needs = state.needs()
        needs.discard(state.parent)
        if state.parent in state.dependencies:
            needs.add(state.parent)
        if not needs.isdisjoint(reached):
            found.append(state)
            reached.add(state.urn)
    return found


def _replacing_diff(deployment: Deployment, state: ResourceState, replaced: set[str]) -> ResourceDiff | None:
    if not state.custom or state.external:
        return None
    if state.provider and split_reference(state.provider)[0] in replaced:
        return ResourceDiff(changes=True)
    if state.deleted_with in replaced:
        return ResourceDiff(changes=True)
    touched: Properties = {}
    for key, urns in state.property_dependencies.items():
        if key in state.inputs and not replaced.isdisjoint(urns):
            touched[key] = UNKNOWN
    if not touched:
        return None
    news = {**state.inputs, **touched}
    if is_provider_type(state.type):
        provider = deployment.providers.get(f"{state.urn}::{state.id}")
        diff = provider.diff_config(state.urn, state.inputs, state.outputs, news)
        return _keys_only(diff)
    operations = deployment.providers.get(state.provider)
    diff = operations.diff(state.urn, state.id, state.inputs, state.outputs, news, state.ignore_changes)
    if diff.changes is None:
        diff = compare_inputs(state.inputs, news)
    return _keys_only(apply_replace_on_changes(diff, state.replace_on_changes, init_errors=False))


def _keys_only(diff: ResourceDiff) -> ResourceDiff | None:
    # The unknown values were only for the question: report only what forces the replacement.
    return ResourceDiff(changes=True, replace_keys=diff.shown_replace_keys()) if diff.replaces else None
