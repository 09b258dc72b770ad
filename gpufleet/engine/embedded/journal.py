"""The journal: one durable line per step, merged into the checkpoint at the end of the run.

The first line has the digest of the checkpoint that the journal continues, so a merged journal is never
merged again. Then follow JSON objects:

- `begin` n, type, resource: an operation on the cloud starts (Pulumi's pending operation);
- `step` with any of: n (that operation has ended), put [key, resource] (a resource of the new state), same
  [key, index] (the unchanged old one at that index), drop [index] (deleted old ones), old [[index,
  resource]] (changed old ones);
- `outputs` key, outputs: a component has registered its outputs;
- `salt`: the secrets provider of later lines.

Only `replay` interprets them, so the state after a crash and the state after a completed run are computed by
the same code.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpufleet.engine.embedded.files import make_folder, state_error, sync_folder
from gpufleet.engine.embedded.shape import is_record
from gpufleet.engine.errors import StateError

Record = dict[str, Any]


@dataclass(slots=True)
class ReplayedState:
    """The state of a checkpoint with a journal."""

    resources: list[Record]
    pending: list[Record]
    salt: str = ""


@dataclass(slots=True)
class _ReplayState:
    olds: list[Record | None]
    news: dict[int, Record] = field(default_factory=dict)
    pending: dict[int, Record] = field(default_factory=dict)
    salt: str = ""


def replay(resources: Sequence[Record], records: Iterable[Record], *, salt: str = "") -> ReplayedState:
    """Return the resources and pending operations after `records`, new ones first, as Pulumi orders them."""
    state = _ReplayState(list(resources), salt=salt)
    for record in records:
        try:
            _apply(state, record)
        except LookupError:
            raise StateError(
                "the journal of an interrupted run refers to resources that the state does not have",
                remedy=_REPAIR,
            ) from None
    kept = [*state.news.values(), *(old for old in state.olds if old is not None)]
    return ReplayedState(kept, list(state.pending.values()), state.salt)


def _apply(state: _ReplayState, record: Record) -> None:
    kind = record["kind"]
    if kind == "begin":
        state.pending[record["n"]] = {"resource": record["resource"], "type": record["type"]}
    elif kind == "step":
        state.pending.pop(record.get("n", -1), None)
        for index, changed in record.get("old", ()):
            state.olds[index] = changed
        if "same" in record:
            key, index = record["same"]
            unchanged = state.olds[index]
            if unchanged is not None:
                state.news[key] = unchanged
                state.olds[index] = None
        if "put" in record:
            key, resource = record["put"]
            state.news[key] = resource
        for index in record.get("drop", ()):
            state.olds[index] = None
    elif kind == "outputs":
        resource = {name: value for name, value in state.news[record["key"]].items() if name != "outputs"}
        if record["outputs"]:
            resource["outputs"] = record["outputs"]
        state.news[record["key"]] = resource
    elif kind == "salt":
        state.salt = record["salt"]


def journal_of(state_file: Path) -> Path:
    """Return the path of a state's journal."""
    return state_file.with_name(state_file.name + ".journal")


def read(path: Path, digest: str, former: str = "") -> list[Record]:
    """Return the records that continue the checkpoint with this digest; empty without such a journal.

    `former` is the digest of the previous checkpoint: a journal that continues that one was already merged,
    and the run ended before it could remove the file. An incomplete last line was being written when the run
    ended and does not count. Any other line that is not JSON, and a journal of yet another checkpoint, mean
    damaged or moved files: a `StateError`, and nothing is changed.
    """
    records, damage = salvage(path)
    if damage:
        raise StateError(f"{path}:{damage}: the journal of an interrupted run is damaged", remedy=_REPAIR)
    if not records:
        return []
    if records[0].get("kind") == "base" and records[0].get("digest") == digest:
        return records[1:]
    if records[0].get("kind") == "base" and records[0].get("digest") == former:
        return []
    raise StateError(
        f"{path}: this journal of an interrupted run continues another checkpoint than the current one",
        remedy=_REPAIR,
    )


_REPAIR = "`gpufleet state repair` shows its content and merges it into the state. Nothing was changed"


def salvage(path: Path) -> tuple[list[Record], int]:
    """Return a journal's records up to the first damaged line, and that line's number (0: none)."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise state_error(path, "the journal cannot be read", error) from error
    records: list[Record] = []
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            return records, number
        if not is_record(record):
            return records, number
        records.append(record)
    return records, 0


class StateJournal:
    """An open journal. `append` is thread-safe; a durable record is on the disk when it returns.

    Threads that append at the same time share one fsync (group commit), so the cost of a step does not grow
    with the number of parallel steps.
    """

    def __init__(self, path: Path, digest: str) -> None:
        self.path = path
        self.records: list[Record] = []
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        try:
            make_folder(path.parent)
            self._descriptor = os.open(path, flags, 0o600)
            # A line is durable only if the file's name is.
            sync_folder(path.parent)
        except OSError as error:
            raise state_error(path, "the journal cannot be written", error) from error
        self._condition = threading.Condition()
        self._queue: list[bytes] = []
        self._appended = 0
        self._durable = 0
        self._writing = False
        self._failure: OSError | None = None
        self.append({"kind": "base", "digest": digest}, durable=True)
        self.records.clear()

    def append(self, record: Record, *, durable: bool) -> None:
        """Add a record; with `durable` wait until it and all before it would survive a power failure."""
        line = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        with self._condition:
            self.records.append(record)
            self._queue.append(line)
            self._appended += 1
            mine = self._appended
            if not durable:
                return
            while self._durable < mine:
                if self._failure is not None:
                    raise state_error(self.path, "the journal cannot be written", self._failure)
                if self._writing:
                    self._condition.wait()
                else:
                    self._write_queue()

    def _write_queue(self) -> None:
        # Called with the lock held, which is released while the disk writes.
        batch, self._queue = self._queue, []
        upto = self._appended
        self._writing = True
        self._condition.release()
        failure: OSError | None = None
        try:
            _write_all(self._descriptor, b"".join(batch))
            os.fdatasync(self._descriptor)
        except OSError as error:
            failure = error
        except BaseException:
            # Threads that wait for this batch must not consider it written.
            failure = OSError(errno.EINTR, os.strerror(errno.EINTR))
            raise
        finally:
            self._condition.acquire()
            self._writing = False
            if failure is None:
                self._durable = upto
            else:
                self._failure = failure
            self._condition.notify_all()

    def close(self, *, remove: bool) -> None:
        """Close the file; `remove` it once the checkpoint contains everything."""
        os.close(self._descriptor)
        if remove:
            self.path.unlink(missing_ok=True)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
