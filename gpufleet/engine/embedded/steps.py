"""The steps of one resource: create, update, read and import, each recorded before and after.

A failed step raises; `current` is then the running step, for the report.
"""

from __future__ import annotations

from gpufleet.engine.api import Op
from gpufleet.engine.embedded.deployment import Deployment
from gpufleet.engine.embedded.diffs import ResourceDiff
from gpufleet.engine.embedded.goal import Goal
from gpufleet.engine.embedded.operations import ResourceOperations
from gpufleet.engine.embedded.provider_errors import (
    InitFailedError,
    ProviderStoppedError,
    UnknownOutcomeError,
)
from gpufleet.engine.embedded.reporter import Step
from gpufleet.engine.embedded.resource import ResourceState, timestamp
from gpufleet.engine.embedded.values import UNKNOWN_WIRE, SecretValue, contains_unknown
from gpufleet.engine.errors import ProviderError, StepFailedError


class StepRunner:
    """Carries out steps on `new`, the state that a registration creates."""

    def __init__(self, deployment: Deployment, goal: Goal, new: ResourceState) -> None:
        self._deployment = deployment
        self._store = deployment.store
        self._reporter = deployment.reporter
        self._dry_run = deployment.dry_run
        self._goal = goal
        self._new = new
        self.current: Step | None = None

    @property
    def _previews(self) -> bool:
        """Whether the provider only foresees the step. In an `up` that assumes, inputs may be unknown."""
        assumes = self._deployment.context.request.assumes
        return self._dry_run or (assumes and contains_unknown(self._new.inputs))

    def create(
        self,
        operations: ResourceOperations | None,
        op: Op,
        diff: ResourceDiff,
        *,
        drop: ResourceState | None,
        replaced_later: ResourceState | None = None,
    ) -> None:
        """Create it (or its replacement). `drop` is the old state that it replaces, `replaced_later` the old
        one that is deleted later.
        """
        new = self._new
        if operations is None:
            self._reporter.plain(op, new.urn, new.parent, diff)
            new.created = new.modified = timestamp()
            self._store.put(new, drop=drop, changed=_mark_for_deletion(replaced_later), durable=False)
            self._reporter.plan(new, Op.CREATE if op is Op.CREATE else Op.REPLACE, diff)
            return
        self.current = self._reporter.start(op, new.urn, new.parent, diff)
        with self._deployment.context.slot():
            number = self._store.begin("creating", new)
            failure: InitFailedError | None = None
            try:
                new.id, new.outputs = operations.create(
                    new.urn, new.inputs, new.custom_timeouts.get("create", 0.0), preview=self._previews
                )
                if not new.id and not self._dry_run:
                    new.id = UNKNOWN_WIRE
            except InitFailedError as error:
                failure = error
                new.id, new.outputs, new.init_errors = error.id, error.properties, error.reasons
            except UnknownOutcomeError:
                # It may exist: the operation stays pending.
                raise
            except ProviderError:
                self._store.abandon(number)
                raise
            new.created = new.modified = timestamp()
            mark_secrets(new)
            self._store.put(new, number=number, drop=drop, changed=_mark_for_deletion(replaced_later))
        self._reporter.plan(new, Op.CREATE if op is Op.CREATE else Op.REPLACE, diff)
        if failure is not None:
            raise failure
        self._reporter.done(self.current)
        self.current = None

    def update(self, operations: ResourceOperations | None, old: ResourceState, diff: ResourceDiff) -> None:
        """Update it in place."""
        new = self._new
        new.id = old.id
        if operations is None:
            new.outputs = old.outputs
            new.modified = timestamp()
            self._reporter.plain(Op.UPDATE, new.urn, new.parent, diff)
            self._store.put(new, drop=old, durable=False)
            self._reporter.plan(new, Op.UPDATE, diff)
            return
        self.current = self._reporter.start(Op.UPDATE, new.urn, new.parent, diff)
        with self._deployment.context.slot():
            number = self._store.begin("updating", old)
            failure: InitFailedError | None = None
            try:
                new.outputs = operations.update(
                    new.urn,
                    old.id,
                    old.inputs,
                    old.outputs,
                    new.inputs,
                    new.custom_timeouts.get("update", 0.0),
                    self._goal.ignore_changes,
                    preview=self._previews,
                )
            except InitFailedError as error:
                failure = error
                new.outputs, new.init_errors = error.properties, error.reasons
                # It does not have the new inputs yet, so the next run must try again.
                new.inputs = old.inputs
            except ProviderStoppedError:
                raise
            except ProviderError:
                self._store.abandon(number)
                raise
            new.modified = timestamp()
            mark_secrets(new)
            self._store.put(new, number=number, drop=old)
        self._reporter.plan(new, Op.UPDATE, diff)
        if failure is not None:
            raise failure
        self._reporter.done(self.current)
        self.current = None

    def take_over(self, operations: ResourceOperations, old: ResourceState | None) -> ResourceState:
        """Import the resource with the goal's import id; return its state."""
        new, wanted = self._new, self._goal.import_id
        if old is not None and not old.external:
            raise StepFailedError(
                f"it would be imported from '{wanted}', but the state has it as '{old.id}': "
                f"remove the option import, or remove the resource from the program first"
            )
        self.current = self._reporter.start(Op.READ, new.urn, new.parent)
        with self._deployment.context.slot():
            found = operations.read(new.urn, wanted, {}, {}, new.custom_timeouts.get("read", 0.0))
        if not found.id and not found.outputs:
            raise StepFailedError(f"there is no {new.type} with the id '{wanted}' to import")
        if found.inputs is None:
            raise StepFailedError(f"the provider cannot import a {new.type}")
        imported = new.copy()
        imported.id = found.id or wanted
        imported.inputs, imported.outputs = found.inputs, found.outputs
        imported.created = imported.modified = new.created = new.modified = timestamp()
        self._store.put(imported, drop=old)
        self._reporter.done(self.current)
        self.current = None
        return imported

    def read(self, old: ResourceState | None, identifier: str) -> None:
        """Read it under `identifier`: the program does not own it."""
        new = self._new
        new.external = True
        self.current = self._reporter.start(Op.READ, new.urn, new.parent)
        if identifier in ("", UNKNOWN_WIRE):
            if not self._dry_run:
                raise StepFailedError("the id of the resource to read is not known")
            new.id = ""
            self._reporter.done(self.current)
            return
        operations = self._deployment.operations_of(new)
        assert operations is not None  # noqa: S101 - a read resource is always a custom one
        with self._deployment.context.slot():
            found = operations.read(new.urn, identifier, new.inputs, new.inputs)
        if not found.id and not found.outputs:
            raise StepFailedError(f"there is no {new.type} with the id '{identifier}'")
        new.id, new.outputs = found.id or identifier, found.outputs
        mark_secrets(new)
        changed = old is None or (old.inputs, old.outputs) != (new.inputs, new.outputs)
        new.modified = timestamp() if changed else new.modified
        if old is not None and not old.external and old.id != new.id:
            self._store.put(new, changed=_mark_for_deletion(old))
        else:
            self._store.put(new, drop=old)
        self._reporter.done(self.current)
        self.current = None


def _mark_for_deletion(replaced_later: ResourceState | None) -> ResourceState | None:
    if replaced_later is not None:
        replaced_later.delete = True
    return replaced_later


def mark_secrets(state: ResourceState) -> None:
    """Mark outputs as secret if the program declares them so, or if the input of that name is secret."""
    for key in state.additional_secret_outputs:
        if key in state.outputs and key != "id" and not isinstance(state.outputs[key], SecretValue):
            state.outputs[key] = SecretValue(state.outputs[key])
    for key, value in state.outputs.items():
        if not isinstance(value, SecretValue) and isinstance(state.inputs.get(key), SecretValue):
            state.outputs[key] = SecretValue(value)
