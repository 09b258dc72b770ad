"""Whether an `up` of a stack ever came to its end: a mark beside the state lasts from the first one to then.

Rules that compare a change with what exists need it: what a first run that was interrupted has created is
not what anybody decided on.
"""

from __future__ import annotations

from pathlib import Path

from gpufleet.engine.embedded.files import state_error


def mark_of(state_file: Path) -> Path:
    """Return the path of the mark."""
    return state_file.with_name(state_file.name + ".first")


def begin(state_file: Path) -> None:
    """Record that the first `up` begins: the stack has no resources yet."""
    try:
        mark_of(state_file).touch(mode=0o600)
    except OSError as error:
        raise state_error(mark_of(state_file), "the first run cannot be recorded", error) from error


def end(state_file: Path) -> None:
    """Record that an `up` came to its end."""
    mark_of(state_file).unlink(missing_ok=True)


def is_over(state_file: Path) -> bool:
    """Return whether an `up` ever came to its end; a state without the mark counts as one."""
    return not mark_of(state_file).exists()
