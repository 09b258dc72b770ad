"""Resources that a change deletes or replaces, as the engine reports them.

A resource renamed by an alias is not deleted: the engine reports it under its new name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

from gpufleet.policy.change import ChangeStep, StackChange

Fate = Literal["delete", "replace"]


def removals(change: StackChange, types: Collection[str]) -> Iterator[tuple[ChangeStep, Fate]]:
    """Yield the steps that delete or replace resources of the types, each with "delete" or "replace"."""
    for step in change.steps:
        if step.before is None or step.before.type not in types:
            continue
        if step.operation == "delete":
            yield step, "delete"
        elif step.operation == "replace":
            yield step, "replace"


def forced(step: ChangeStep) -> str:
    """Return what forces a replacement, for a message."""
    keys = step.replace_keys or step.diff
    return f" (by {', '.join(keys)})" if keys else ""
