"""One registration: check, diff, and the steps that change a resource.

The order of decisions follows Pulumi's step generator (pkg/resource/deploy/step_generator.go).
"""

from __future__ import annotations

from collections.abc import Callable

from pulumi.runtime.proto import resource_pb2

from gpufleet.engine.api import Op
from gpufleet.engine.embedded.deployment import Deployment
from gpufleet.engine.embedded.diffs import (
    INIT_ERROR_KEY,
    NO_DIFF,
    ResourceDiff,
    apply_replace_on_changes,
    compare_inputs,
    ignore_changes,
)
from gpufleet.engine.embedded.goal import Goal
from gpufleet.engine.embedded.operations import OperationOutcome, ResourceOperations
from gpufleet.engine.embedded.provider_choice import ProviderChoice
from gpufleet.engine.embedded.recovery.pending import manual_steps
from gpufleet.engine.embedded.replacement import dependents_to_replace
from gpufleet.engine.embedded.reporter import Step
from gpufleet.engine.embedded.resource import ResourceState
from gpufleet.engine.embedded.steps import StepRunner
from gpufleet.engine.embedded.urns import is_provider_type
from gpufleet.engine.embedded.values import Properties
from gpufleet.engine.errors import RunInterruptedError, StepFailedError
from gpufleet.errors import GpufleetError


class Registration:
    """The registration of one resource in a run."""

    def __init__(
        self,
        deployment: Deployment,
        goal: Goal,
        urn: str,
        old: ResourceState | None,
        providers: ProviderChoice,
    ) -> None:
        self._deployment = deployment
        self._providers = providers
        self._store = deployment.store
        self._reporter = deployment.reporter
        self._goal = goal
        self._old = old
        self._urn = urn
        self._new = self._new_state()
        self._steps = StepRunner(deployment, goal, self._new)

    def _new_state(self) -> ResourceState:
        goal, old = self._goal, self._old
        return ResourceState(
            urn=self._urn,
            type=goal.type,
            custom=goal.custom,
            inputs=goal.inputs,
            parent=goal.parent,
            protect=bool(goal.protect),
            dependencies=goal.dependencies,
            provider=goal.provider if goal.custom and not is_provider_type(goal.type) else "",
            property_dependencies=goal.property_dependencies,
            additional_secret_outputs=goal.additional_secret_outputs,
            custom_timeouts=goal.timeouts,
            import_id=goal.import_id,
            retain_on_delete=bool(goal.retain_on_delete),
            deleted_with=goal.deleted_with,
            created=old.created if old else "",
            modified=old.modified if old else "",
            source_position=goal.source_position,
            ignore_changes=goal.ignore_changes,
            replace_on_changes=goal.replace_on_changes,
        )

    # -- entry points

    def run(self) -> OperationOutcome:
        """Register the resource."""
        return self._guarded(Op.CREATE if self._old is None else Op.UPDATE, self._advance)

    def read(self, identifier: str) -> OperationOutcome:
        """Read the resource under `identifier` instead: the program does not own it."""
        return self._guarded(Op.READ, lambda: self._read(identifier))

    def _guarded(self, op: Op, action: Callable[[], bool]) -> OperationOutcome:
        new = self._new
        blocker = self._deployment.blocked_by(new)
        if blocker:
            reason = f"skipped, because {blocker} failed"
            self._reporter.skipped(op, new.urn, new.parent, reason)
            self._deployment.fail(new.urn, reason)
            return OperationOutcome(new.urn, "", {}, resource_pb2.Result.FAIL)
        try:
            skipped = action()
        except RunInterruptedError as error:
            self._reporter.skipped(op, new.urn, new.parent, error.message)
            self._deployment.fail(new.urn, error.message)
            return OperationOutcome(new.urn, "", {}, resource_pb2.Result.FAIL)
        except GpufleetError as error:
            if error is self._deployment.refusal:
                # It ends the run, and is not a failure of this resource.
                raise
            self._reporter.failed(self._steps.current or Step(op, new.urn, new.parent), error.message)
            self._deployment.fail(new.urn, error.message)
            return OperationOutcome(new.urn, "", {}, resource_pb2.Result.FAIL)
        settled = self._new
        return OperationOutcome(settled.urn, settled.id, settled.outputs, unknown=skipped)

    def _read(self, identifier: str) -> bool:
        self._steps.read(self._old, identifier)
        return False

    # -- decisions

    def _advance(self) -> bool:
        """Do what is needed; return True if the resource was skipped (not a target)."""
        deployment, new, old = self._deployment, self._new, self._old
        if not deployment.is_target(new):
            return self._leave_alone()
        if new.urn in deployment.blocked:
            raise StepFailedError(
                f"an earlier run may have created it: {deployment.blocked[new.urn]}; {manual_steps(new.urn)}"
            )
        missing = new.needs() & deployment.left_out
        if missing:
            raise StepFailedError(
                f"it needs {sorted(missing)[0]}, which is not among the targets and does not exist"
            )
        operations = deployment.operations_of(new)
        if self._must_import() and operations is not None:
            old = self._old = self._steps.take_over(operations, old)
        if new.urn in deployment.deleted:
            # Another registration is deleting the old one: wait for its result.
            deployment.deletion_lock.acquire()
            deployment.deletion_lock.release()
        recreating = old is not None and old.pending_replacement
        fresh = old is None or old.external or recreating
        known: Properties = {} if fresh or old is None else old.inputs
        if old is not None and not fresh:
            new.inputs = ignore_changes(new.inputs, old.inputs, self._goal.ignore_changes)
        self._check(operations, known)
        deployment.apply_policies(new, self._goal)
        if old is None:
            self._steps.create(operations, Op.CREATE, NO_DIFF, drop=None)
        elif recreating:
            self._reporter.plain(Op.REPLACE, new.urn, new.parent)
            deployment.replaced.add(new.urn)
            why = deployment.deleted.get(new.urn, NO_DIFF)
            self._steps.create(operations, Op.CREATE_REPLACEMENT, why, drop=old)
        elif old.external:
            self._steps.create(operations, Op.CREATE_REPLACEMENT, NO_DIFF, drop=old)
            self._reporter.plain(Op.REPLACE, new.urn, new.parent)
        else:
            self._change(operations, old)
        return False

    def _leave_alone(self) -> bool:
        new, old = self._new, self._old
        if old is None:
            self._deployment.left_out.add(new.urn)
            return True
        kept = old.copy()
        kept.urn = new.urn
        self._new = kept
        self._store.same(kept, old)
        self._reporter.plain(Op.SAME, kept.urn, kept.parent)
        return False

    def _check(self, operations: ResourceOperations | None, olds: Properties) -> None:
        if operations is None:
            return
        result = operations.check(self._urn, olds, self._new.inputs)
        if result.failures:
            raise StepFailedError(
                "; ".join(f"{name}: {reason}" if name else reason for name, reason in result.failures)
            )
        self._new.inputs = result.inputs

    def _change(self, operations: ResourceOperations | None, old: ResourceState) -> None:
        new = self._new
        diff = self._diff(operations, old)
        diff = apply_replace_on_changes(
            diff, self._goal.replace_on_changes, init_errors=bool(old.init_errors)
        )
        if diff.changes and diff.replaces:
            self._replace(operations, old, diff)
        elif diff.changes or old.init_errors:
            shown = diff if diff.changes else ResourceDiff(changes=True, changed_keys=(INIT_ERROR_KEY,))
            self._steps.update(operations, old, shown)
        else:
            new.id, new.outputs = old.id, old.outputs
            if is_provider_type(new.type):
                # A provider that reports a changed configuration as the same keeps the old one.
                configured = new.copy()
                configured.inputs = old.inputs
                self._deployment.providers.same(configured)
            self._store.same(new, old)
            self._reporter.plain(Op.SAME, new.urn, new.parent)
            self._reporter.plan(new, Op.SAME)

    def _diff(self, operations: ResourceOperations | None, old: ResourceState) -> ResourceDiff:
        new = self._new
        if new.deleted_with and new.deleted_with in self._deployment.replaced:
            return ResourceDiff(changes=True, replace_keys=("deletedWith",))
        if self._provider_changed(old):
            return ResourceDiff(changes=True, replace_keys=("provider",))
        if operations is None:
            return compare_inputs(old.inputs, new.inputs) if old.inputs != new.inputs else NO_DIFF
        ignored = self._goal.ignore_changes
        diff = operations.diff(new.urn, old.id, old.inputs, old.outputs, new.inputs, ignored)
        if diff.changes is None:
            compared = compare_inputs(old.inputs, ignore_changes(new.inputs, old.inputs, ignored))
            return ResourceDiff(
                changes=compared.changes,
                replace_keys=diff.replace_keys,
                changed_keys=compared.changed_keys,
                delete_before_replace=diff.delete_before_replace,
            )
        return diff

    def _provider_changed(self, old: ResourceState) -> bool:
        new = self._new
        if old.provider == new.provider:
            return False
        if not old.provider or not new.provider:
            return True
        return self._providers.replaces(old.provider, new.provider)

    def _must_import(self) -> bool:
        wanted, old = self._goal.import_id, self._old
        if not wanted or not self._goal.custom:
            return False
        return old is None or old.external or (old.import_id or old.id) != wanted

    # -- actions

    def _replace(self, operations: ResourceOperations | None, old: ResourceState, diff: ResourceDiff) -> None:
        new, goal, deployment = self._new, self._goal, self._deployment
        if new.protect and old.protect:
            raise StepFailedError(
                f"{', '.join(diff.shown_replace_keys())} would replace it, and it is protected: "
                f"remove the option protect, run again, and then make the change"
            )
        if goal.import_id:
            raise StepFailedError("it was imported and would be replaced: remove the option import")
        # Defaults of the old resource (its generated name, say) do not apply to a new one.
        new.inputs = goal.inputs
        self._check(operations, {})
        # The CLI's engine loses remediations here: a replacement could bypass a policy.
        deployment.policies.remediate_again(new, goal)
        deployment.replaced.add(new.urn)
        delete_first = diff.delete_before_replace
        if goal.delete_before_replace is not None:
            delete_first = goal.delete_before_replace
        if delete_first and operations is not None:
            self._delete_first(old)
            self._reporter.plain(Op.REPLACE, new.urn, new.parent, diff)
            self._steps.create(operations, Op.CREATE_REPLACEMENT, diff, drop=old)
        else:
            self._steps.create(operations, Op.CREATE_REPLACEMENT, diff, drop=None, replaced_later=old)
            self._reporter.plain(Op.REPLACE, new.urn, new.parent, diff)

    def _delete_first(self, old: ResourceState) -> None:
        deployment = self._deployment
        with deployment.deletion_lock:
            found = dependents_to_replace(deployment, old)
            dependents = [state for state, why in found if deployment.claim_for_deletion(state.urn, why)]
            together = {old.urn, *(state.urn for state in dependents)}
            for dependent in reversed(dependents):
                if dependent.protect and not dependent.delete:
                    raise StepFailedError(
                        f"replacing it deletes {dependent.urn} first, and that one is protected"
                    )
                deployment.removal.delete_for_replacement(dependent, together)
            deployment.removal.delete_for_replacement(old, together)
