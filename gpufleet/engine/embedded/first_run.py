"""A mark beside the state, from the start of a stack's first `up` until an `up` completes.

Rules that compare a change with the existing resources need it: no one approved what an interrupted first run
has created.
"""

from __future__ import annotations

from pathlib import Path

from gpufleet.engine.embedded.files import state_error


def mark_of(state_file: Path) -> Path:
    """Return the path of the mark."""
    return state_file.with_name(state_file.name + ".first")


def begin(state_file: Path) -> None:
    """Record that the first `up` starts: the stack has no resources yet."""
    try:
        mark_of(state_file).touch(mode=0o600)
    except OSError as error:
        raise state_error(mark_of(state_file), "the first run cannot be recorded", error) from error


def end(state_file: Path) -> None:
    """Record that an `up` completed."""
    mark_of(state_file).unlink(missing_ok=True)


def is_over(state_file: Path) -> bool:
    """Return whether an `up` ever completed; a state without the mark counts as completed."""
    return not mark_of(state_file).exists()
