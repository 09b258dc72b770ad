"""Repair of a damaged state: the content of each copy, and restoring one with later journal entries."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpufleet.engine.embedded import checkpoint
from gpufleet.engine.embedded.files import backups_of, state_error, sync_folder, write_durably
from gpufleet.engine.embedded.integrity import problems, sort_by_dependency, without_gaps
from gpufleet.engine.embedded.journal import Record, ReplayedState, journal_of, replay, salvage
from gpufleet.engine.embedded.lock import StateLock
from gpufleet.engine.errors import StateError


class StateCopy(Struct, frozen=True):
    """A checkpoint or a backup. `fault`: why it cannot be read, `gaps`: what is missing in it."""

    path: Path
    written: datetime
    resources: int = 0
    pending: int = 0
    fault: str = ""
    gaps: tuple[str, ...] = ()


class Examination(Struct, frozen=True):
    """The files of a state. `journal` says how an interrupted run's journal relates to the checkpoint."""

    current: StateCopy | None
    backups: tuple[StateCopy, ...]
    journal: str = ""

    @property
    def is_whole(self) -> bool:
        """Return whether a run can start from it."""
        if self.current is None:
            return not self.backups and not self.journal
        return not self.current.fault and not self.current.gaps and not self.journal

    @property
    def best(self) -> StateCopy | None:
        """Return the copy to continue from: the checkpoint if readable, else the latest readable backup."""
        copies = [copy for copy in (self.current, *self.backups) if copy is not None]
        return next((copy for copy in copies if not copy.fault), None)


class RepairResult(Struct, frozen=True):
    """The result of a repair. `brought_in` are the URNs that the journal added or changed."""

    resources: int
    brought_in: tuple[str, ...]
    kept: tuple[Path, ...]


def examine(state_file: Path) -> Examination:
    """Inspect a state and all its copies; change nothing."""
    current = _copy(state_file) if state_file.is_file() else None
    backups = tuple(_copy(path) for path in backups_of(state_file))
    return Examination(current, backups, _journal_fault(state_file))


def repair(state_file: Path, source: Path) -> RepairResult:
    """Make `source` (the checkpoint or a copy of it) the state, with the journal of an interrupted run.

    The old files are kept under names that end in `damaged-<time>`. Raises `StateError` for a copy that is
    not a checkpoint, or whose gaps cannot be closed.
    """
    with StateLock(state_file, "state repair"):
        content = _read(source)
        try:
            deployment = checkpoint.parse(content)
        except ValueError as error:
            raise StateError(f"{source}: this is not a complete checkpoint: {error}", remedy=_OTHER) from None
        state, brought_in = _with_journal(state_file, deployment, content)
        resources = without_gaps(sort_by_dependency(state.resources))
        left = problems(resources)
        if left:
            raise StateError(f"{source}: {left[0]}, and that cannot be repaired", remedy=_OTHER)
        kept = replace_damaged(state_file, checkpoint.content_of(resources, state.pending, state.salt))
        return RepairResult(len(resources), tuple(brought_in), tuple(kept))


_OTHER = "choose another copy with --from"


def _copy(path: Path) -> StateCopy:
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    try:
        deployment = checkpoint.parse(_read(path))
    except ValueError as error:
        return StateCopy(path, written, fault=str(error))
    resources = deployment["resources"]
    pending = len(deployment.get("pending_operations") or ())
    return StateCopy(path, written, len(resources), pending, gaps=tuple(problems(resources)))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise state_error(path, "the copy cannot be read", error) from error


def _journal_fault(state_file: Path) -> str:
    """Return what is wrong with the journal of a state; empty if there is none or it matches."""
    records, damage = salvage(journal_of(state_file))
    if damage:
        return f"damaged in line {damage}"
    fitting = {_digest(state_file), *(_digest(path) for path in backups_of(state_file)[:1])}
    if records and records[0].get("digest") not in fitting:
        return "of another checkpoint"
    if records and records[0]["digest"] == _digest(state_file):
        try:
            replay(sort_by_dependency(checkpoint.parse(_read(state_file))["resources"]), records[1:])
        except (StateError, ValueError):
            return "not mergeable into the checkpoint"
    return ""


def _digest(path: Path) -> str:
    return checkpoint.digest_of(path.read_bytes()) if path.is_file() else ""


def _with_journal(
    state_file: Path, deployment: dict[str, Any], content: bytes
) -> tuple[ReplayedState, Sequence[str]]:
    """Return the deployment merged with the journal, and the URNs that the journal added."""
    records, _ = salvage(journal_of(state_file))
    resources, salt = sort_by_dependency(deployment["resources"]), checkpoint.salt_of(deployment)
    pending = list(deployment.get("pending_operations") or ())
    replayed_already = (
        state_file.is_file() and content == state_file.read_bytes() and _follows(state_file, records)
    )
    if not records or replayed_already:
        return ReplayedState(resources, pending, salt), ()
    brought = [record["put"][1]["urn"] for record in records if "put" in record]
    try:
        continues = records[0].get("digest") == checkpoint.digest_of(content)
        state = replay(resources, records[1:], salt=salt) if continues else _merged(resources, records, salt)
    except StateError:
        state = _merged(resources, records, salt)
    state.pending = [*pending, *state.pending]
    return state, sorted(set(brought))


def _follows(state_file: Path, records: Sequence[Record]) -> bool:
    """Return whether the journal was merged into the checkpoint before its run ended."""
    return bool(records) and records[0].get("digest") in [
        _digest(path) for path in backups_of(state_file)[:1]
    ]


def _merged(resources: Sequence[Record], records: Sequence[Record], salt: str) -> ReplayedState:
    """Return resources of another checkpoint with those that a journal contains in full.

    The journal refers to old resources by their index, which is unknown here: a refresh finds the deleted
    ones.
    """
    usable = [
        {key: value for key, value in record.items() if key not in ("same", "old", "drop")}
        for record in records
        if record.get("kind") in ("begin", "step", "salt")
    ]
    state = replay((), usable, salt=salt)
    newer = {item["urn"] for item in state.resources}
    state.resources += [item for item in resources if item.get("delete") or item["urn"] not in newer]
    return state


def replace_damaged(state_file: Path, content: bytes) -> list[Path]:
    """Write the state; keep its old file and the journal under other names."""
    mark = datetime.now(UTC).strftime("damaged-%Y%m%dT%H%M%SZ")
    temporary = state_file.with_name(state_file.name + ".tmp")
    kept: list[Path] = []
    try:
        write_durably(temporary, content)
        if state_file.exists():
            aside = state_file.with_name(f"{state_file.name}.{mark}")
            aside.unlink(missing_ok=True)
            os.link(state_file, aside)
            kept.append(aside)
        temporary.replace(state_file)
        sync_folder(state_file.parent)
        journal = journal_of(state_file)
        if journal.exists():
            kept.append(journal.replace(journal.with_name(f"{journal.name}.{mark}")))
    except OSError as error:
        raise state_error(state_file, "the state cannot be written", error) from error
    return kept
