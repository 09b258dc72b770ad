"""Refresh: read every resource again and update the state from the cloud."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from gpufleet.engine.api import Op
from gpufleet.engine.embedded.deployment import Deployment
from gpufleet.engine.embedded.diffs import NO_DIFF, ResourceDiff, compare_inputs
from gpufleet.engine.embedded.provider import ReadResult
from gpufleet.engine.embedded.provider_errors import InitFailedError
from gpufleet.engine.embedded.resource import ResourceState, timestamp
from gpufleet.engine.embedded.steps import mark_secrets
from gpufleet.engine.embedded.urns import is_provider_type
from gpufleet.engine.errors import RunInterruptedError
from gpufleet.errors import GpufleetError


def refresh_all(deployment: Deployment) -> bool:
    """Refresh every targeted resource of the old state; return True if each could be read."""
    targets = [state for state in deployment.store.olds if deployment.is_target(state)]
    workers = max(1, deployment.context.request.parallel)
    with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="refresh") as pool:
        return all(list(pool.map(lambda state: _refresh(deployment, state), targets)))


def _refresh(deployment: Deployment, old: ResourceState) -> bool:
    reporter, store = deployment.reporter, deployment.store
    if deployment.context.cancelled.is_set():
        return False
    if not old.custom or is_provider_type(old.type) or old.pending_replacement:
        reporter.plain(Op.SAME, old.urn, old.parent)
        return True
    step = reporter.start(Op.REFRESH, old.urn, old.parent)
    try:
        operations = deployment.operations_of(old)
        assert operations is not None  # noqa: S101 - components were left out above
        reasons: list[str] = []
        with deployment.context.slot():
            timeout = old.custom_timeouts.get("read", 0.0)
            try:
                found = operations.read(old.urn, old.id, old.inputs, old.outputs, timeout)
            except InitFailedError as error:
                reasons = error.reasons
                found = ReadResult(error.id or old.id, error.inputs, error.properties)
                reporter.log("warning", f"it exists but is unhealthy: {error.message}", old.urn)
        if not found.id:
            store.drop_old(old)
            reporter.plain(Op.DELETE, old.urn, old.parent)
            return True
        new = old.copy()
        new.id, new.outputs, new.init_errors = found.id, found.outputs, reasons
        new.inputs = old.inputs if found.inputs is None else found.inputs
        mark_secrets(new)
        if new == old:
            reporter.plain(Op.SAME, old.urn, old.parent)
            return True
        if (new.inputs, new.outputs) != (old.inputs, old.outputs):
            new.modified = timestamp()
        diff = _drift(deployment, old, new)
        store.change_old(old, as_state=new)
        reporter.plain(Op.UPDATE if diff.changes else Op.SAME, old.urn, old.parent, diff)
        reporter.plan(new, Op.UPDATE if diff.changes else Op.SAME, diff)
    except RunInterruptedError as error:
        reporter.skipped(Op.REFRESH, old.urn, old.parent, error.message)
        return False
    except GpufleetError as error:
        reporter.failed(step, error.message)
        return False
    return True


def _drift(deployment: Deployment, old: ResourceState, new: ResourceState) -> ResourceDiff:
    """Return the change that an `up` of an unchanged program would now make, in reverse."""
    if old.external:
        return compare_inputs(old.outputs, new.outputs)
    operations = deployment.operations_of(old)
    if operations is None:
        return NO_DIFF
    diff = operations.diff(new.urn, new.id, new.inputs, new.outputs, old.inputs, old.ignore_changes)
    if diff.changes is None:
        return compare_inputs(old.inputs, new.inputs)
    # It has already happened: nothing is replaced.
    return ResourceDiff(
        changes=diff.changes,
        changed_keys=tuple(sorted({*diff.changed_keys, *diff.shown_keys()})),
    )
