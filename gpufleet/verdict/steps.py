"""The steps of a change, from an engine's events."""

from __future__ import annotations

from collections.abc import Iterable

from gpufleet.engine.api import Op, ResourceEvent
from gpufleet.policy.change import ChangeStep, Operation
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack

_OPERATIONS: dict[Op, Operation] = {
    Op.CREATE: "create",
    Op.UPDATE: "update",
    Op.DELETE: "delete",
    Op.REPLACE: "replace",
    Op.CREATE_REPLACEMENT: "replace",
    Op.SAME: "same",
    Op.READ: "same",
    Op.REFRESH: "same",
}
_STACK = "pulumi:pulumi:Stack"


def steps_of(events: Iterable[ResourceEvent], before: Stack, after: Stack) -> tuple[ChangeStep, ...]:
    """Return one step per resource of a preview, in its order, without the stack.

    Resources that neither side has (default providers) are omitted too.
    """
    reported: dict[str, ResourceEvent] = {}
    for event in events:
        if event.status != "done" or event.type == _STACK or event.op not in _OPERATIONS:
            continue
        # Engines report a replacement in up to three steps; use the one with reasons.
        known = reported.get(event.urn)
        if known is None or (known.op is not Op.REPLACE and event.op is not Op.CREATE_REPLACEMENT):
            reported[event.urn] = event
    steps: list[ChangeStep] = []
    for urn, event in reported.items():
        operation = _OPERATIONS[event.op]
        new = after.by_urn.get(urn) if operation != "delete" else None
        old = _former(urn, new, before) if operation != "create" else None
        if new is not None or old is not None:
            steps.append(ChangeStep(urn, operation, old, new, event.diff, event.replace_keys))
    return tuple(steps)


def _former(urn: str, new: Resource | None, before: Stack) -> Resource | None:
    """Return the resource before the change, also by its aliases."""
    names = (urn, *(new.options.aliases if new is not None else ()))
    return next((before.by_urn[name] for name in names if name in before.by_urn), None)
