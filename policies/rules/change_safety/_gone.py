"""What a change takes away: deleted and replaced resources, as the engine says.

A resource that got another name by an alias is no deletion: the engine reports it under its new name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal

from gpufleet.policy.change import ChangeStep, StackChange

Fate = Literal["delete", "replace"]


def gone(change: StackChange, types: Collection[str]) -> Iterator[tuple[ChangeStep, Fate]]:
    """The steps that delete or replace resources of the types, with which of the two."""
    for step in change.steps:
        if step.before is None or step.before.type not in types:
            continue
        if step.operation == "delete":
            yield step, "delete"
        elif step.operation == "replace":
            yield step, "replace"


def forced(step: ChangeStep) -> str:
    """What forces a replacement, for a message."""
    keys = step.replace_keys or step.diff
    return f" (by {', '.join(keys)})" if keys else ""
