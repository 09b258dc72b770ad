"""Removes the states of stacks whose cloud was deleted, for `gpufleet sandbox reset`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from gpufleet.engine.embedded.lock import StateLock


def forget_states(folder: Path) -> list[str]:
    """Remove every stack's checkpoint, journal and backups in `folder`; return the stacks' names.

    Passphrases stay: exports may need them. Raises `StateLockedError` while a run uses one of the stacks,
    and then removes nothing.
    """
    # Include stacks whose checkpoint is missing and that only have backups.
    names = {path.name.partition(".json")[0] for path in folder.glob("*.json*") if _is_state(path)}
    states = [folder / f"{name}.json" for name in sorted(names)]
    with ExitStack() as locks:
        for state in states:
            locks.enter_context(StateLock(state, "reset"))
        for state in states:
            for path in folder.glob(f"{state.name}*"):
                if _is_state(path):
                    path.unlink()
    return [state.stem for state in states]


def _is_state(path: Path) -> bool:
    return path.is_file() and path.suffix not in {".lock", ".passphrase"}
