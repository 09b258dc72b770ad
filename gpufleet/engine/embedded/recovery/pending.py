"""Settling the operations that an earlier run left pending: each is looked up in the cloud.

A creation that took place is taken over, one that did not is forgotten; after a deletion and an
update the resource is read. What cannot be told stays pending, and its resource is not created again
until somebody has looked: nothing is made twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpufleet.engine.embedded.context import RunContext
from gpufleet.engine.embedded.journal import Record
from gpufleet.engine.embedded.operations import ResourceOperations
from gpufleet.engine.embedded.provider import Provider, ReadResult
from gpufleet.engine.embedded.provider_errors import InitFailedError
from gpufleet.engine.embedded.recovery.search import Candidates, Finder, ProviderCall, Repeatable, Undecided
from gpufleet.engine.embedded.resource import ResourceState, from_json, timestamp
from gpufleet.engine.embedded.steps import mark_secrets
from gpufleet.engine.embedded.urns import is_provider_type, package_of
from gpufleet.engine.embedded.values import reveal
from gpufleet.errors import GpufleetError

_LOOK_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class _Creation:
    found: ReadResult | None = None
    undecided: str = ""


def what_to_do(urn: str) -> str:
    """What somebody does who has to settle a creation by hand."""
    return (
        f"look for it in the cloud, then say `gpufleet state repair <environment> --adopt '{urn}=<its id>'`, "
        f"or --forget '{urn}' where it is not there"
    )


class Recovery:
    """Settles what is pending in a run's state, durably, and says what became of each operation.

    `blocked` holds the URNs whose creation may have taken place: URN -> why that cannot be told.
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
        """Settle everything; the run then begins from what was found."""
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
                became, is_settled = f"that cannot be looked up: {error.message}", False
                if operation["type"] == "creating":
                    self.blocked[state.urn] = became
            if not is_settled:
                self._left.append(operation)
            self._say(operation["type"], state, became)
        self._store.restart(self._states, self._left)

    def _say(self, doing: str, state: ResourceState, became: str) -> None:
        named = f" (id {state.id})" if state.id and doing != "creating" else ""
        self._context.reporter.say(
            "warning",
            f"an earlier run did not finish {doing} {state.urn}{named} "
            f"(the answer to it was lost, or the run died): {became}",
            state.urn,
        )

    # -- creations

    def _settle_creation(self, wanted: ResourceState) -> tuple[str, bool]:
        result = self._look_for(wanted)
        if result.undecided:
            self.blocked[wanted.urn] = result.undecided
            return f"{result.undecided}; it is not created again: {what_to_do(wanted.urn)}", False
        if result.found is None:
            return "it was not made", True
        self._take_over(wanted, result.found)
        return f"it was made, and is taken over (id {result.found.id})", True

    def _look_for(self, wanted: ResourceState) -> _Creation:
        if wanted.id:
            # Somebody has looked, and said where it is.
            read = self._read(wanted, wanted.id)
            absent = f"{wanted.id}, which it was said to be, is not there"
            return _Creation(read) if read.id else _Creation(undecided=absent)
        finder = self._finders.get(package_of(wanted.type))
        if finder is None:
            return _Creation(undecided=f"there is no way to look for a {wanted.type}")
        until = self._store.last_written + finder.settle_s(self._context.env)
        while True:
            result = self._look_once(finder, wanted)
            left = until - time.time()
            if result.found or result.undecided or left <= 0 or self._context.cancelled.is_set():
                return result
            time.sleep(min(left, _LOOK_AGAIN_S))

    def _look_once(self, finder: Finder, wanted: ResourceState) -> _Creation:
        answer = finder.find(wanted, self._ask(wanted))
        if isinstance(answer, Undecided):
            return _Creation(undecided=answer.reason)
        if isinstance(answer, Repeatable):
            return _Creation()
        return self._judge(finder, wanted, answer)

    def _judge(self, finder: Finder, wanted: ResourceState, candidates: Candidates) -> _Creation:
        known = {state.id for state in self._states if state.type == wanted.type}
        ours: list[ReadResult] = []
        others: list[str] = []
        for identifier in candidates.ids:
            if identifier in known:
                continue
            read = self._read(wanted, identifier)
            bare = candidates.bare and not reveal(read.outputs.get("tags"))
            if read.id and (bare or finder.is_it(wanted, read.outputs)):
                ours.append(read)
            elif read.id:
                others.append(read.id)
        if len(ours) == 1:
            return _Creation(ours[0])
        if ours:
            return _Creation(undecided=f"{' and '.join(item.id for item in ours)} both look like it")
        if others:
            return _Creation(undecided=f"{others[0]} is there, but does not carry its tags or labels")
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
                # What this one takes the place of is gone, or was never ours.
                self._states.remove(old)
            else:
                old.delete = True
        self._states.insert(0, new)

    # -- updates and deletions

    def _settle_update(self, before: ResourceState) -> tuple[str, bool]:
        old = self._standing(before)
        if old is None:
            return "it is no longer in the state", True
        read = self._read(old, old.id)
        if not read.id:
            self._remove(old)
            return "it is gone from the cloud, and from the state", True
        new = old.copy()
        new.id, new.outputs = read.id, read.outputs
        new.inputs = old.inputs if read.inputs is None else read.inputs
        mark_secrets(new)
        self._states[self._states.index(old)] = new
        return "the state has it as it is now", True

    def _settle_deletion(self, before: ResourceState) -> tuple[str, bool]:
        old = self._standing(before)
        if old is None:
            return "it is no longer in the state", True
        if self._read(old, old.id).id:
            return "it was not deleted", True
        self._remove(old)
        return "it was deleted", True

    def _standing(self, before: ResourceState) -> ResourceState | None:
        identity = before.urn, before.id
        return next((state for state in self._states if (state.urn, state.id) == identity), None)

    def _remove(self, old: ResourceState) -> None:
        if old.delete or not any(old.urn in state.needs() for state in self._states):
            self._states.remove(old)
        else:
            # As after any deletion ahead of a replacement: the state keeps it as one to be made again.
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
            # There, but not well: the next `up` sees to it.
            state.init_errors = error.reasons
            return ReadResult(error.id or identifier, error.inputs, error.properties)
