"""Deletion of resources, each after its dependents, with the parallelism of the run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor

from gpufleet.engine.api import Op
from gpufleet.engine.embedded.context import RunContext
from gpufleet.engine.embedded.operations import ResourceOperations
from gpufleet.engine.embedded.provider_errors import ProviderStoppedError
from gpufleet.engine.embedded.resource import ResourceState
from gpufleet.engine.errors import ProviderError, RunInterruptedError, StepFailedError
from gpufleet.errors import GpufleetError

PlannedDeletions = Sequence[tuple[ResourceState, Op]]


class Removal:
    """Deletes old resources, one or many."""

    def __init__(
        self, context: RunContext, operations_of: Callable[[ResourceState], ResourceOperations | None]
    ) -> None:
        self._context = context
        self._operations_of = operations_of
        self._condemned_urns: set[str] = set()

    def delete_for_replacement(self, state: ResourceState, together: Set[str]) -> None:
        """Delete a resource before its replacement; the state keeps it as one to create again.

        `together` are the URNs that go with it: a resource deleted with another needs no own deletion.
        """
        if state.pending_replacement:
            return
        context = self._context
        step = context.reporter.start(Op.DELETE_REPLACED, state.urn, state.parent)
        with context.slot():
            number = context.store.begin("deleting", state)
            self._call(state, number, together)
            state.pending_replacement = True
            context.store.change_old(state, number=number)
        context.reporter.done(step)

    def delete_all(self, deletions: PlannedDeletions) -> bool:
        """Delete all given resources; return True if all succeeded. What a failed one needs is kept."""
        if not deletions:
            return True
        self._condemned_urns = {state.urn for state, _ in deletions}
        graph = _Graph(deletions, self._context.store.index_of)
        workers = max(1, self._context.request.parallel)
        with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="delete") as pool:
            finished = threading.Event()
            faults: list[BaseException] = []

            def work(place: int) -> None:
                ready: list[int] = []
                try:
                    state, op = deletions[place]
                    blocker = graph.blocker(place)
                    if blocker or self._context.cancelled.is_set():
                        reason = f"kept, because {blocker} was not deleted" if blocker else "interrupted"
                        self._context.reporter.skipped(op, state.urn, state.parent, reason)
                        done = False
                    else:
                        done = self._delete(state, op)
                    ready = graph.settle(place, deleted=done)
                except BaseException as error:
                    # An error of the engine: resources that wait for this deletion must not wait for ever.
                    faults.append(error)
                    ready = graph.settle(place, deleted=False)
                finally:
                    for next_place in ready:
                        pool.submit(work, next_place)
                    if graph.empty:
                        finished.set()

            for place in graph.roots():
                pool.submit(work, place)
            finished.wait()
        if faults:
            raise faults[0]
        return graph.clean

    def _delete(self, state: ResourceState, op: Op) -> bool:
        context = self._context
        if state.external:
            # It was only read: the state drops it, the cloud keeps it.
            context.store.drop_old(state)
            return True
        step = context.reporter.start(op, state.urn, state.parent)
        try:
            if state.protect and op is Op.DELETE:
                raise StepFailedError(
                    "it is protected: remove the option protect and run `up`, then delete it"
                )
            if state.custom and not state.retain_on_delete:
                with context.slot():
                    number = context.store.begin("deleting", state)
                    self._call(state, number, self._condemned_urns)
                    context.store.drop_old(state, number=number)
            else:
                context.store.drop_old(state)
        except RunInterruptedError as error:
            context.reporter.skipped(op, state.urn, state.parent, error.message)
            return False
        except GpufleetError as error:
            context.reporter.failed(step, error.message)
            return False
        context.reporter.done(step)
        if op is Op.DELETE:
            context.reporter.plan(state, op)
        return True

    def _call(self, state: ResourceState, number: int, together: Set[str]) -> None:
        if self._context.dry_run or not state.custom or state.retain_on_delete or state.external:
            return
        if state.deleted_with and state.deleted_with in together:
            return
        try:
            operations = self._operations_of(state)
            if operations is not None:
                timeout = state.custom_timeouts.get("delete", 0.0)
                operations.delete(state.urn, state.id, state.inputs, state.outputs, timeout)
        except ProviderStoppedError:
            # It is unknown whether it was deleted: the operation stays pending.
            raise
        except (ProviderError, GpufleetError):
            self._context.store.abandon(number)
            raise


class _Graph:
    """The order of deletion: a resource is deleted after everything that needs it."""

    def __init__(self, deletions: PlannedDeletions, index_of: Callable[[ResourceState], int]) -> None:
        self._lock = threading.Lock()
        self._urns = [state.urn for state, _ in deletions]
        self._needs: list[list[int]] = [[] for _ in deletions]
        self._waits = [0] * len(deletions)
        self._blockers: dict[int, str] = {}
        self._left = len(deletions)
        places: dict[str, list[int]] = {}
        order = [index_of(state) for state, _ in deletions]
        for place, urn in enumerate(self._urns):
            places.setdefault(urn, []).append(place)
        for place, (state, _) in enumerate(deletions):
            for urn in state.needs():
                for needed in places.get(urn, ()):
                    # Two resources share a URN while one waits for its deletion: a resource can only
                    # depend on the one before it in the state.
                    if order[needed] < order[place]:
                        self._needs[place].append(needed)
                        self._waits[needed] += 1

    def roots(self) -> list[int]:
        return [place for place, count in enumerate(self._waits) if count == 0]

    def blocker(self, place: int) -> str:
        with self._lock:
            return self._blockers.get(place, "")

    def settle(self, place: int, *, deleted: bool) -> list[int]:
        ready: list[int] = []
        with self._lock:
            self._left -= 1
            for needed in self._needs[place]:
                if not deleted:
                    self._blockers.setdefault(needed, self._urns[place])
                    self._failed = True
                self._waits[needed] -= 1
                if self._waits[needed] == 0:
                    ready.append(needed)
            if not deleted:
                self._failed = True
        return ready

    _failed = False

    @property
    def empty(self) -> bool:
        with self._lock:
            return self._left == 0

    @property
    def clean(self) -> bool:
        return not self._failed
