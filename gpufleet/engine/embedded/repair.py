"""Putting a damaged state right: what each copy holds, and bringing one back with what was done since."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpufleet.engine.embedded import checkpoint
from gpufleet.engine.embedded.files import backups_of, state_error, sync_folder, write_durably
from gpufleet.engine.embedded.integrity import in_order, problems, without_gaps
from gpufleet.engine.embedded.journal import Record, ReplayedState, fold, journal_of, salvage
from gpufleet.engine.embedded.lock import StateLock
from gpufleet.engine.errors import StateError


@dataclass(frozen=True, slots=True)
class StateCopy:
    """A checkpoint or one of its backups. `fault` says why it cannot be read, `gaps` what it lacks."""

    path: Path
    written: datetime
    resources: int = 0
    pending: int = 0
    fault: str = ""
    gaps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Examination:
    """What is there of a state. `journal` says what a dead run's journal is to the checkpoint."""

    current: StateCopy | None
    backups: tuple[StateCopy, ...]
    journal: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether a run can begin from it."""
        if self.current is None:
            return not self.backups and not self.journal
        return not self.current.fault and not self.current.gaps and not self.journal

    @property
    def best(self) -> StateCopy | None:
        """The copy to go on from: the checkpoint where it can be read, else the last backup that can."""
        copies = [copy for copy in (self.current, *self.backups) if copy is not None]
        return next((copy for copy in copies if not copy.fault), None)


@dataclass(frozen=True, slots=True)
class RepairResult:
    """What a repair did. `brought_in` are the URNs that a dead run's journal added or changed."""

    resources: int
    brought_in: tuple[str, ...]
    kept: tuple[Path, ...]


def examine(state_file: Path) -> Examination:
    """Look at a state and all its copies; changes nothing."""
    current = _copy(state_file) if state_file.is_file() else None
    backups = tuple(_copy(path) for path in backups_of(state_file))
    return Examination(current, backups, _journal_fault(state_file))


def repair(state_file: Path, source: Path) -> RepairResult:
    """Make `source` (the checkpoint or a copy of it) the state, with what a dead run's journal knows.

    What was there is kept beside it under a name that ends in `damaged-<time>`. Raises `StateError`
    for a copy that is no checkpoint, or that lacks what cannot be made up for.
    """
    with StateLock(state_file, "state repair"):
        content = _read(source)
        try:
            deployment = checkpoint.parse(content)
        except ValueError as error:
            raise StateError(f"{source}: this is not a complete checkpoint: {error}", remedy=_OTHER) from None
        state, brought_in = _with_journal(state_file, deployment, content)
        resources = without_gaps(in_order(state.resources))
        left = problems(resources)
        if left:
            raise StateError(f"{source}: {left[0]}, and that cannot be made up for", remedy=_OTHER)
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
    """What is wrong with the journal beside a state; empty where there is none or it fits."""
    records, damage = salvage(journal_of(state_file))
    if damage:
        return f"damaged in line {damage}"
    fitting = {_digest(state_file), *(_digest(path) for path in backups_of(state_file)[:1])}
    if records and records[0].get("digest") not in fitting:
        return "that of another checkpoint"
    if records and records[0]["digest"] == _digest(state_file):
        try:
            fold(in_order(checkpoint.parse(_read(state_file))["resources"]), records[1:])
        except (StateError, ValueError):
            return "not one that the checkpoint can take"
    return ""


def _digest(path: Path) -> str:
    return checkpoint.digest_of(path.read_bytes()) if path.is_file() else ""


def _with_journal(
    state_file: Path, deployment: dict[str, Any], content: bytes
) -> tuple[ReplayedState, Sequence[str]]:
    """The deployment with the journal folded in, and the URNs that it brought."""
    records, _ = salvage(journal_of(state_file))
    resources, salt = in_order(deployment["resources"]), checkpoint.salt_of(deployment)
    pending = list(deployment.get("pending_operations") or ())
    folded_already = (
        state_file.is_file() and content == state_file.read_bytes() and _follows(state_file, records)
    )
    if not records or folded_already:
        return ReplayedState(resources, pending, salt), ()
    brought = [record["put"][1]["urn"] for record in records if "put" in record]
    try:
        continues = records[0].get("digest") == checkpoint.digest_of(content)
        state = fold(resources, records[1:], salt=salt) if continues else _merged(resources, records, salt)
    except StateError:
        state = _merged(resources, records, salt)
    state.pending = [*pending, *state.pending]
    return state, sorted(set(brought))


def _follows(state_file: Path, records: Sequence[Record]) -> bool:
    """Whether the journal was folded into the checkpoint before its run died."""
    return bool(records) and records[0].get("digest") in [
        _digest(path) for path in backups_of(state_file)[:1]
    ]


def _merged(resources: Sequence[Record], records: Sequence[Record], salt: str) -> ReplayedState:
    """Resources of another checkpoint with those that a journal names in full.

    What it says of old resources it says by their place, which is not known here: a refresh finds
    those that are gone.
    """
    usable = [
        {key: value for key, value in record.items() if key not in ("same", "old", "drop")}
        for record in records
        if record.get("kind") in ("begin", "step", "salt")
    ]
    state = fold((), usable, salt=salt)
    newer = {item["urn"] for item in state.resources}
    state.resources += [item for item in resources if item.get("delete") or item["urn"] not in newer]
    return state


def replace_damaged(state_file: Path, content: bytes) -> list[Path]:
    """Write the state; what was in its place and the journal are kept under other names."""
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
