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
    states = sorted(path for path in folder.glob("*.json") if path.is_file())
    with ExitStack() as locks:
        for state in states:
            locks.enter_context(StateLock(state, "reset"))
        for state in states:
            for path in folder.glob(f"{state.name}*"):
                if path.suffix not in {".lock", ".passphrase"}:
                    path.unlink()
    return [state.stem for state in states]
