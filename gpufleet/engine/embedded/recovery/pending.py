"""Settles the operations that an earlier run left pending, by reading the cloud.

A completed creation is taken over, one that did not happen is dropped; after a deletion or an update the
resource is read. An operation with an unknown result stays pending, and its resource is not created again
until a user has settled it, so that nothing is created twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from msgspec import Struct

from gpufleet.engine.embedded.context import RunContext
from gpufleet.engine.embedded.journal import Record
from gpufleet.engine.embedded.operations import ResourceOperations
from gpufleet.engine.embedded.provider import Provider, ReadResult
from gpufleet.engine.embedded.provider_errors import InitFailedError
from gpufleet.engine.embedded.recovery.search import (
    Candidates,
    Finder,
    ProviderCall,
    RepeatableCreation,
    UnknownResult,
)
from gpufleet.engine.embedded.resource import ResourceState, from_json, timestamp
from gpufleet.engine.embedded.steps import mark_secrets
from gpufleet.engine.embedded.urns import is_provider_type, package_of
from gpufleet.engine.embedded.values import reveal
from gpufleet.errors import GpufleetError

_LOOK_AGAIN_S = 1.0


class _Creation(Struct, frozen=True):
    found: ReadResult | None = None
    undecided: str = ""


def manual_steps(urn: str) -> str:
    """Return what a user must do to settle a creation."""
    return (
        f"look for it in the cloud, then run `gpufleet state repair <environment> --adopt '{urn}=<its id>'`, "
        f"or --forget '{urn}' if it does not exist"
    )


class Recovery:
    """Settles the pending operations of a run's state durably, and reports the result of each.

    `blocked` holds the URNs of resources that may have been created: URN -> why that is unknown.
    """

    def __init__(
        self,
        context: RunContext,
        operations_of: Callable[[ResourceState], ResourceOperations | None],
        finders: Mapping[str, Finder],
    ) -> None:
        self._context = context
        self._store = context.store
        self._operations_of = operations_of
        self._finders = finders
        self._states = list(context.store.olds)
        self._left: list[Record] = []
        self.blocked: dict[str, str] = {}

    def run(self) -> None:
        """Settle all operations; the run then starts from the result."""
        pending = self._store.pending
        if not pending:
            return
        for operation in pending:
            state = from_json(operation["resource"], self._store.manager)
            settle = {
                "creating": self._settle_creation,
                "updating": self._settle_update,
                "deleting": self._settle_deletion,
            }.get(operation["type"])
            if settle is None or not state.custom or is_provider_type(state.type):
                # Reading and importing change nothing, and a provider is not in the cloud.
                continue
            try:
                became, is_settled = settle(state)
            except GpufleetError as error:
                became, is_settled = f"it cannot be looked up: {error.message}", False
                if operation["type"] == "creating":
                    self.blocked[state.urn] = became
            if not is_settled:
                self._left.append(operation)
            self._report(operation["type"], state, became)
        self._store.restart(self._states, self._left)

    def _report(self, doing: str, state: ResourceState, became: str) -> None:
        named = f" (id {state.id})" if state.id and doing != "creating" else ""
        self._context.reporter.log(
            "warning",
            f"an earlier run did not finish {doing} {state.urn}{named} "
            f"(its answer was lost, or the run crashed): {became}",
            state.urn,
        )

    # -- creations

    def _settle_creation(self, wanted: ResourceState) -> tuple[str, bool]:
        result = self._find_creation(wanted)
        if result.undecided:
            self.blocked[wanted.urn] = result.undecided
            return f"{result.undecided}; it is not created again: {manual_steps(wanted.urn)}", False
        if result.found is None:
            return "it was not created", True
        self._take_over(wanted, result.found)
        return f"it was created, and is taken over (id {result.found.id})", True

    def _find_creation(self, wanted: ResourceState) -> _Creation:
        if wanted.id:
            # A user has looked for it and entered its id.
            read = self._read(wanted, wanted.id)
            absent = f"the id {wanted.id} that was entered for it does not exist"
            return _Creation(read) if read.id else _Creation(undecided=absent)
        finder = self._finders.get(package_of(wanted.type))
        if finder is None:
            return _Creation(undecided=f"a {wanted.type} cannot be searched")
        until = self._store.last_written + finder.visibility_delay_s(self._context.env)
        while True:
            result = self._find_once(finder, wanted)
            left = until - time.time()
            if result.found or result.undecided or left <= 0 or self._context.cancelled.is_set():
                return result
            time.sleep(min(left, _LOOK_AGAIN_S))

    def _find_once(self, finder: Finder, wanted: ResourceState) -> _Creation:
        answer = finder.find(wanted, self._ask(wanted))
        if isinstance(answer, UnknownResult):
            return _Creation(undecided=answer.reason)
        if isinstance(answer, RepeatableCreation):
            return _Creation()
        return self._match(finder, wanted, answer)

    def _match(self, finder: Finder, wanted: ResourceState, candidates: Candidates) -> _Creation:
        known = {state.id for state in self._states if state.type == wanted.type}
        ours: list[ReadResult] = []
        others: list[str] = []
        for identifier in candidates.ids:
            if identifier in known:
                continue
            read = self._read(wanted, identifier)
            bare = candidates.bare and not reveal(read.outputs.get("tags"))
            if read.id and (bare or finder.matches(wanted, read.outputs)):
                ours.append(read)
            elif read.id:
                others.append(read.id)
        if len(ours) == 1:
            return _Creation(ours[0])
        if ours:
            return _Creation(undecided=f"{' and '.join(item.id for item in ours)} both match it")
        if others:
            return _Creation(undecided=f"{others[0]} exists, but does not have its tags or labels")
        return _Creation()

    def _ask(self, wanted: ResourceState) -> ProviderCall:
        def ask(token: str, args: Mapping[str, object]) -> dict[str, object]:
            provider = self._operations_of(wanted)
            assert isinstance(provider, Provider)  # noqa: S101 - provider resources were left out above
            result, failures = provider.invoke(token, dict(args), preview=self._context.dry_run)
            if failures:
                raise GpufleetError("; ".join(reason for _, reason in failures))
            return result

        return ask

    def _take_over(self, wanted: ResourceState, found: ReadResult) -> None:
        new = wanted.copy()
        new.id, new.outputs = found.id, found.outputs
        new.inputs = wanted.inputs if found.inputs is None else found.inputs
        new.created = new.modified = timestamp()
        mark_secrets(new)
        for old in list(self._states):
            if old.urn != new.urn or old.delete:
                continue
            if old.pending_replacement or old.external:
                # The resource that this one replaces is deleted, or was never ours.
                self._states.remove(old)
            else:
                old.delete = True
        self._states.insert(0, new)

    # -- updates and deletions

    def _settle_update(self, before: ResourceState) -> tuple[str, bool]:
        old = self._current_state(before)
        if old is None:
            return "it is no longer in the state", True
        read = self._read(old, old.id)
        if not read.id:
            self._remove(old)
            return "it no longer exists, and was removed from the state", True
        new = old.copy()
        new.id, new.outputs = read.id, read.outputs
        new.inputs = old.inputs if read.inputs is None else read.inputs
        mark_secrets(new)
        self._states[self._states.index(old)] = new
        return "the state was updated from the cloud", True

    def _settle_deletion(self, before: ResourceState) -> tuple[str, bool]:
        old = self._current_state(before)
        if old is None:
            return "it is no longer in the state", True
        if self._read(old, old.id).id:
            return "it was not deleted", True
        self._remove(old)
        return "it was deleted", True

    def _current_state(self, before: ResourceState) -> ResourceState | None:
        identity = before.urn, before.id
        return next((state for state in self._states if (state.urn, state.id) == identity), None)

    def _remove(self, old: ResourceState) -> None:
        if old.delete or not any(old.urn in state.needs() for state in self._states):
            self._states.remove(old)
        else:
            # As after any deletion before a replacement: the state keeps it as one to create again.
            old.pending_replacement = True

    def _read(self, state: ResourceState, identifier: str) -> ReadResult:
        operations = self._operations_of(state)
        assert operations is not None  # noqa: S101 - components were left out above
        timeout = state.custom_timeouts.get("read", 0.0)
        try:
            return operations.read(
                state.urn, identifier, state.inputs, state.outputs or state.inputs, timeout
            )
        except InitFailedError as error:
            # It exists but is unhealthy: the next `up` handles it.
            state.init_errors = error.reasons
            return ReadResult(error.id or identifier, error.inputs, error.properties)
