"""The effective state on disk: the checkpoint with the journal of an interrupted run."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from msgspec import Struct

from gpufleet.engine.embedded import checkpoint
from gpufleet.engine.embedded.files import backup_of
from gpufleet.engine.embedded.integrity import sort_by_dependency, without_gaps
from gpufleet.engine.embedded.journal import Record, ReplayedState, journal_of, read, replay
from gpufleet.engine.embedded.values import SECRET_SIG, SIG_KEY
from gpufleet.engine.errors import StateError


class StateOnDisk(Struct, frozen=True):
    """The result of `load_state`. `digest` is the checkpoint's ('' without one)."""

    replayed: ReplayedState
    digest: str
    interrupted: bool
    last_written: float

    @property
    def exists(self) -> bool:
        """Return whether there was ever a run."""
        return bool(self.digest) or self.interrupted


def load_state(state_file: Path) -> StateOnDisk:
    """Read a state; a damaged one raises a `StateError`, and nothing is changed.

    A state without secrets has no salt either: the first secret may be written with another passphrase than
    former secrets were.
    """
    deployment, digest, records = _read(state_file)
    # A journal numbers resources in dependency order, whatever the order in the file.
    resources = sort_by_dependency(deployment["resources"])
    replayed = replay(resources, records, salt=checkpoint.salt_of(deployment))
    replayed.pending = [*(deployment.get("pending_operations") or ()), *replayed.pending]
    if records:
        # Drops of an interrupted refresh or destroy may leave references behind.
        replayed.resources = without_gaps(sort_by_dependency(replayed.resources))
    if not holds_secrets(replayed.resources) and not holds_secrets(replayed.pending):
        replayed.salt = ""
    return StateOnDisk(
        replayed, digest, bool(records), max(_written(state_file), _written(journal_of(state_file)))
    )


def export_state(state_file: Path) -> dict[str, Any] | None:
    """Return the state as `pulumi stack export` prints it; None if there was never a run."""
    state = load_state(state_file)
    if not state.exists:
        return None
    replayed = state.replayed
    return {
        "version": 3,
        "deployment": checkpoint.deployment_json(replayed.resources, replayed.pending, replayed.salt),
    }


def _read(state_file: Path) -> tuple[dict[str, Any], str, list[Record]]:
    """Return the checkpoint, its digest and the journal that continues it.

    A reader takes no lock: if another run writes the two meanwhile, they are read again.
    """
    while True:
        deployment, digest = checkpoint.load(state_file)
        try:
            records = read(journal_of(state_file), digest, _digest_of(backup_of(state_file)))
        except StateError:
            if checkpoint.load(state_file)[1] == digest:
                raise
            continue
        return deployment, digest, records


def holds_secrets(value: Any) -> bool:
    """Return whether a part of a state contains a secret."""
    if isinstance(value, dict):
        return value.get(SIG_KEY) == SECRET_SIG or any(holds_secrets(item) for item in value.values())
    return isinstance(value, list) and any(holds_secrets(item) for item in value)


def _digest_of(path: Path) -> str:
    try:
        return checkpoint.digest_of(path.read_bytes())
    except OSError:
        return ""


def _written(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0
