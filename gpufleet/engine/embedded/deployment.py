"""One deployment: the resources that the program has registered, and their results."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from gpufleet.engine.api import Op, PolicyEvent
from gpufleet.engine.embedded.context import RunContext
from gpufleet.engine.embedded.diffs import ResourceDiff
from gpufleet.engine.embedded.goal import Goal
from gpufleet.engine.embedded.operations import ResourceOperations
from gpufleet.engine.embedded.policy import NO_POLICIES
from gpufleet.engine.embedded.registry import ProviderRegistry
from gpufleet.engine.embedded.removal import Removal
from gpufleet.engine.embedded.resource import ResourceState
from gpufleet.engine.embedded.urns import (
    ROOT_STACK_TYPE,
    AliasResolver,
    is_provider_type,
    make_urn,
    matches,
    split_reference,
    urn_type,
)
from gpufleet.engine.embedded.values import Properties, contains_unknown
from gpufleet.engine.errors import RunInterruptedError, StepFailedError


class Deployment:
    """The shared data of all registrations of a run. Thread-safe.

    `replaced` holds the URNs that this run replaces, `deleted` those whose old resource was deleted first
    because one of its dependencies is replaced by deleting it first, with the reason, `blocked` those that
    an earlier run may have created, with what is unknown.
    """

    def __init__(self, context: RunContext) -> None:
        self.context = context
        self.store = context.store
        self.reporter = context.reporter
        self.dry_run = context.dry_run
        self.policies = NO_POLICIES
        self.providers = ProviderRegistry(context)
        self.removal = Removal(context, self.operations_of)
        self.replaced: set[str] = set()
        self.deleted: dict[str, ResourceDiff] = {}
        self.blocked: dict[str, str] = {}
        self.refusal: Exception | None = None
        self.on_refusal: Callable[[], None] = lambda: None
        self.deletion_lock = threading.Lock()
        self.left_out: set[str] = set()
        self._lock = threading.Lock()
        self._seen: set[str] = set()
        self._failed: dict[str, str] = {}
        self._aliases = AliasResolver(context.request.stack, context.request.project)
        self._stack_outputs: tuple[str, Properties] | None = None

    # -- registration

    def claim(self, goal: Goal) -> str:
        """Reserve and return the URN of the goal; raise if it must not be registered."""
        if self.context.cancelled.is_set():
            raise RunInterruptedError("the run was interrupted")
        if self.refusal is not None:
            raise self.refusal
        request = self.context.request
        urn = make_urn(request.stack, request.project, goal.parent, goal.type, goal.name)
        with self._lock:
            if goal.parent and goal.parent not in self._seen:
                raise StepFailedError(f"{goal.name}: its parent {goal.parent} is not registered")
            if urn in self._seen:
                raise StepFailedError(
                    f"two resources have the type {goal.type} and the name '{goal.name}' ({urn}): "
                    f"names must be unique for each type and parent"
                )
            self._seen.add(urn)
        return urn

    def find_old(self, urn: str, goal: Goal) -> ResourceState | None:
        """Return the resource in the old state, under this URN or a former one."""
        old = self.store.by_urn.get(urn)
        if old is not None:
            return old
        with self._lock:
            for alias in self._aliases.candidates(goal.name, goal.type, goal.parent, goal.aliases):
                old = self.store.by_urn.get(alias)
                if old is None or alias == urn:
                    continue
                if alias in self._seen or alias in self._aliases.used.values():
                    raise StepFailedError(
                        f"{urn} claims the former resource {alias}, which is also registered itself"
                    )
                self._aliases.used[urn] = alias
                return old
        return None

    def former_urn(self, urn: str) -> str:
        """Return the URN of a resource in the old state."""
        with self._lock:
            return self._aliases.used.get(urn, urn)

    def operations_of(self, state: ResourceState) -> ResourceOperations | None:
        """Return the operations for a resource; None for a component."""
        if not state.custom:
            return None
        if is_provider_type(state.type):
            return self.providers
        return self.providers.get(state.provider)

    # -- failures

    def fail(self, urn: str, reason: str) -> None:
        """Record that a resource failed or was skipped, so that its dependents are skipped."""
        with self._lock:
            self._failed[urn] = reason

    def blocked_by(self, state: ResourceState) -> str:
        """Return a failed resource that `state` needs; empty if there is none."""
        with self._lock:
            if not self._failed:
                return ""
            return next((urn for urn in sorted(state.needs()) if urn in self._failed), "")

    @property
    def has_failures(self) -> bool:
        """Return whether any resource failed or was skipped."""
        return bool(self._failed)

    def refuse(self, error: Exception) -> None:
        """End the run: the program uses an unsupported feature, or the engine has an error."""
        with self._lock:
            if self.refusal is None:
                self.refusal = error
        self.on_refusal()

    def claim_for_deletion(self, urn: str, why: ResourceDiff) -> bool:
        """Claim an old resource for deletion before its replacement; return False if it is not available.

        A resource that is being registered does not depend on the replaced one any more, whatever the old
        state says, and one that was claimed before is deleted elsewhere.
        """
        with self._lock:
            if urn in self._seen or urn in self.deleted:
                return False
            self.deleted[urn] = why
            return True

    def apply_policies(self, state: ResourceState, goal: Goal) -> None:
        """Let policies remediate and check a resource. Outside a preview a mandatory violation fails it."""
        self._report(self.policies.remediate(state, goal))
        mandatory = self._report(self.policies.check_resource(state, goal))
        if mandatory and not self.dry_run:
            raise StepFailedError("; ".join(f"{event.policy}: {event.message}" for event in mandatory))

    def check_stack(self) -> bool:
        """Let policies check the stack after the run; return False if a mandatory one is violated."""
        states = list(self.store.news.values())
        if self._stack_outputs is not None:
            urn, outputs = self._stack_outputs
            states = [replace(state, outputs=outputs) if state.urn == urn else state for state in states]
        return not self._report(self.policies.check_stack(states))

    def _report(self, violations: Sequence[PolicyEvent]) -> list[PolicyEvent]:
        for violation in violations:
            self.reporter.violate(violation)
        return [event for event in violations if event.enforcement == "mandatory"]

    # -- outputs

    def register_outputs(self, urn: str, outputs: Properties) -> None:
        """Keep a component's outputs; the stack's are written at the end of the run."""
        if urn_type(urn) == ROOT_STACK_TYPE:
            with self._lock:
                self._stack_outputs = (urn, outputs)
        elif urn in self.store.news:
            if not self.dry_run:
                # After a failure some may be unknown: the state cannot contain those.
                outputs = {key: value for key, value in outputs.items() if not contains_unknown(value)}
            self.store.set_outputs(urn, outputs)

    def settle_stack_outputs(self, *, complete: bool) -> Properties:
        """Write the stack's outputs. After failures, outputs that were not computed keep their old value."""
        if self._stack_outputs is None:
            return {}
        urn, outputs = self._stack_outputs
        if not complete and not self.dry_run:
            old = self.store.by_urn.get(urn)
            known = {key: value for key, value in outputs.items() if not contains_unknown(value)}
            outputs = {**(old.outputs if old is not None else {}), **known}
        if urn in self.store.news:
            self.store.set_outputs(urn, outputs)
        return outputs

    def resource_by_urn(self, args: Properties) -> Properties:
        """Return the answer of `pulumi:pulumi:getResource`, by which SDKs follow resource references."""
        urn = str(args.get("urn", ""))
        state = self.store.find(urn)
        if state is None:
            raise StepFailedError(f"unknown resource {urn}")
        return {"urn": state.urn, "id": state.id, "state": state.outputs}

    # -- targets and the end of the run

    def is_target(self, state: ResourceState) -> bool:
        """Return whether the run may change this resource (always for the stack and providers)."""
        targets = self.context.request.targets
        if not targets or is_provider_type(state.type) or state.type == ROOT_STACK_TYPE:
            return True
        return any(matches(target, state.urn) for target in targets)

    def unregistered(self) -> list[tuple[ResourceState, Op]]:
        """Return old resources to delete: replaced ones, and those that the program no longer registers."""
        with self._lock:
            kept = self._seen | set(self._aliases.used.values())
        found: list[tuple[ResourceState, Op]] = []
        for state in self.store.olds:
            if self.context.request.targets and not self.is_target(state):
                continue
            if state.delete:
                found.append((state, Op.DELETE_REPLACED))
            elif state.pending_replacement:
                # Already deleted for a replacement that was then not requested.
                continue
            elif state.urn not in kept and not self._still_serves(state):
                found.append((state, Op.DELETE))
        return found

    def forget_deleted(self) -> None:
        """Drop old resources that were deleted for a replacement that was then not requested."""
        for state in self.store.olds:
            if state.pending_replacement and state.urn not in self.store.news:
                self.store.drop_old(state)

    def _still_serves(self, state: ResourceState) -> bool:
        # With targets, an old provider stays while a resource outside the targets refers to it.
        if not self.context.request.targets or not is_provider_type(state.type):
            return False
        used = {split_reference(other.provider)[0] for other in self.store.news.values() if other.provider}
        return state.urn in used
