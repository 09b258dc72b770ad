"""The state of a stack during a run: the old and the new resources, and every step on disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from gpufleet.engine.embedded import checkpoint
from gpufleet.engine.embedded.crypter import ROUNDS, SecretsManager
from gpufleet.engine.embedded.integrity import is_same, sort_by_dependency, without_gaps
from gpufleet.engine.embedded.journal import Record, StateJournal, journal_of, replay
from gpufleet.engine.embedded.lock import StateLock
from gpufleet.engine.embedded.resource import ResourceState, from_json, to_json
from gpufleet.engine.embedded.stored_state import load_state
from gpufleet.engine.errors import StateError

Operation = Literal["creating", "updating", "deleting", "reading", "importing"]


class StateStore:
    """Context manager of one run's state. A preview opens it read-only, without a lock, and writes nothing.

    The passphrase comes from `env`, else from this process's environment.

    `olds` is the state before the run, `news` (by URN) what the run has settled. All methods are
    thread-safe; one that records a completed cloud operation returns once the record is on the disk.
    Leaving the context merges everything into the checkpoint, also after a failure. `last_written` is when
    a run last wrote the state (seconds since the epoch; 0 without a state).
    """

    def __init__(
        self,
        state_file: Path,
        verb: str,
        *,
        dry_run: bool,
        env: Mapping[str, str] | None = None,
        rounds: int = ROUNDS,
    ) -> None:
        self._file = state_file
        self._dry_run = dry_run
        self._env = {**os.environ, **(env or {})}
        self._rounds = rounds
        self._state_lock = None if dry_run else StateLock(state_file, verb)
        self._guard: AbstractContextManager[Any] = self._state_lock or nullcontext()
        self._lock = threading.Lock()
        self._journal: StateJournal | None = None
        self._next = 0
        self._salt_written = ""
        self.pending: list[Record] = []
        self.last_written = 0.0

    def __enter__(self) -> StateStore:
        self._guard.__enter__()
        try:
            self._open()
        except BaseException as error:
            self._guard.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def _open(self) -> None:
        state = load_state(self._file)
        self.last_written = state.last_written
        self.manager = SecretsManager(self._file, state.replayed.salt, self._env, self._rounds)
        digest = state.digest
        if state.interrupted and not self._dry_run:
            replayed = state.replayed
            digest = checkpoint.save(self._file, replayed.resources, replayed.pending, replayed.salt)
        self._begin(state.replayed.resources, state.replayed.pending, digest)

    def _begin(self, resources: Sequence[Record], pending: list[Record], digest: str) -> None:
        self._base = sort_by_dependency(resources)
        self._base_pending = list(pending)
        self._salt_written = self.manager.salt
        self.pending = pending
        self.olds = [from_json(data, self.manager) for data in self._base]
        self._index = {id(state): index for index, state in enumerate(self.olds)}
        self.by_urn = {state.urn: state for state in self.olds if not state.delete}
        self.news: dict[str, ResourceState] = {}
        self._keys: dict[str, int] = {}
        if not self._dry_run:
            self._journal = StateJournal(journal_of(self._file), digest)

    def restart(self, states: Sequence[ResourceState], pending: list[Record]) -> None:
        """Start the run from this state instead, durably: the result of a recovery.

        Only before the first step. A preview starts from it too, and writes nothing.
        """
        records = without_gaps(sort_by_dependency([to_json(state, self.manager) for state in states]))
        digest = ""
        if self._journal is not None:
            journal, self._journal = self._journal, None
            digest = checkpoint.save(self._file, records, pending, self.manager.salt)
            journal.close(remove=False)
        self._begin(records, pending, digest)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._journal is not None:
                self._compact(self._journal)
        finally:
            self._guard.__exit__(kind, error, trace)

    def _compact(self, journal: StateJournal) -> None:
        replayed = replay(self._base, journal.records, salt=self._salt_written)
        resources = without_gaps(sort_by_dependency(replayed.resources))
        pending = [*(item for item in self.pending if _is_open(item, resources)), *replayed.pending]
        try:
            unchanged = pending == self._base_pending and is_same(resources, self._base)
            # Backups of runs that changed nothing would displace those that differ.
            if not unchanged or not self._file.exists():
                checkpoint.save(self._file, resources, pending, replayed.salt)
        except StateError:
            journal.close(remove=False)
            raise
        journal.close(remove=True)

    # -- recording

    def begin(self, operation: Operation, state: ResourceState) -> int:
        """Record the start of a cloud operation; return its number once it is on the disk."""
        with self._lock:
            self._next += 1
            number = self._next
        if self._journal is not None:
            record = {"kind": "begin", "n": number, "type": operation, "resource": self._json(state)}
            self._journal.append(record, durable=True)
        return number

    def abandon(self, number: int) -> None:
        """Record that an operation has failed and changed nothing."""
        if self._journal is not None:
            self._journal.append({"kind": "step", "n": number}, durable=True)

    def put(
        self,
        new: ResourceState,
        *,
        number: int = -1,
        drop: ResourceState | None = None,
        changed: ResourceState | None = None,
        durable: bool = True,
    ) -> None:
        """Add `new` to the state; remove the old one `drop`, and mark the old one `changed` as changed."""
        with self._lock:
            self.news[new.urn] = new
            key = self._keys.setdefault(new.urn, len(self._keys))
        if self._journal is None:
            return
        record: Record = {"kind": "step", "n": number, "put": [key, self._json(new)]}
        if drop is not None and id(drop) in self._index:
            record["drop"] = [self._index[id(drop)]]
        if changed is not None and id(changed) in self._index:
            record["old"] = [[self._index[id(changed)], self._json(changed)]]
        self._journal.append(record, durable=durable)

    def same(self, new: ResourceState, old: ResourceState) -> None:
        """Record that a resource did not change in the cloud (its options in the state may have)."""
        if new != old or id(old) not in self._index:
            self.put(new, drop=old, durable=False)
            return
        with self._lock:
            self.news[new.urn] = new
            key = self._keys.setdefault(new.urn, len(self._keys))
        if self._journal is not None:
            record = {"kind": "step", "same": [key, self._index[id(old)]]}
            self._journal.append(record, durable=False)

    def set_outputs(self, urn: str, outputs: dict[str, Any]) -> None:
        """Record the outputs of a component."""
        state = self.news[urn]
        if state.outputs == outputs:
            return
        state.outputs = outputs
        if self._journal is not None:
            written = self._json(state).get("outputs", {})
            self._journal.append(
                {"kind": "outputs", "key": self._keys[urn], "outputs": written}, durable=False
            )

    def change_old(
        self, old: ResourceState, *, number: int = -1, as_state: ResourceState | None = None
    ) -> None:
        """Replace an old resource with `as_state` (or record its change in place)."""
        self._write_old({"old": [[self._index[id(old)], self._json(as_state or old)]]}, number)

    def drop_old(self, old: ResourceState, *, number: int = -1) -> None:
        """Remove an old resource."""
        self._write_old({"drop": [self._index[id(old)]]}, number)

    def _write_old(self, part: Record, number: int) -> None:
        if self._journal is not None:
            self._journal.append({"kind": "step", "n": number, **part}, durable=True)

    def _json(self, state: ResourceState) -> Record:
        data = to_json(state, self.manager)
        salt = self.manager.salt
        if salt != self._salt_written and self._journal is not None:
            # Before the first line that is encrypted with it.
            self._salt_written = salt
            self._journal.append({"kind": "salt", "salt": salt}, durable=False)
        return data

    # -- lookup

    @property
    def lock_descriptors(self) -> tuple[int, ...]:
        """Return the descriptor of the state's lock, for a process that keeps it if this one ends."""
        return () if self._state_lock is None else (self._state_lock.descriptor,)

    def index_of(self, old: ResourceState) -> int:
        """Return the index of an old resource in `olds`."""
        return self._index[id(old)]

    def find(self, urn: str) -> ResourceState | None:
        """Return a resource by URN: as this run has settled it, else as it was."""
        return self.news.get(urn) or self.by_urn.get(urn)


def _is_open(operation: Record, resources: Sequence[Record]) -> bool:
    """Return whether a pending operation of an earlier run still matters: deleted resources do not."""
    if operation["type"] in ("creating", "importing", "reading"):
        return True
    identity = operation["resource"]["urn"], operation["resource"].get("id")
    return any((resource["urn"], resource.get("id")) == identity for resource in resources)
