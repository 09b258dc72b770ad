"""Forgetting the states of stacks whose cloud is gone: what `gpufleet sandbox reset` needs."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from gpufleet.engine.embedded.lock import StateLock


def forget_states(folder: Path) -> list[str]:
    """Remove every stack's checkpoint, journal and backups in `folder`; the stacks' names.

    Passphrases stay: they open exports that somebody may have kept. Raises `StateLockedError`
    while a run works on any of the stacks, and then removes nothing.
    """
    # Also where the checkpoint itself is gone and only its backups are left.
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
