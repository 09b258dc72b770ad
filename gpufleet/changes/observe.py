"""The steps of a change on the resources of a stack, and the kinds of effect."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from gpufleet.engine.api import Op, ResourceEvent


class Effect(StrEnum):
    """The effect of a change on existing resources."""

    NOTHING = "nothing"
    IN_PLACE = "in place"
    ROLLING = "rolling"
    REPLACEMENT = "replacement"


_HOW = {
    Op.CREATE: "create",
    Op.UPDATE: "update",
    Op.DELETE: "delete",
    Op.REPLACE: "replace",
    Op.CREATE_REPLACEMENT: "replace",
    Op.DELETE_REPLACED: "replace",
}


class ObservedStep(Struct, frozen=True):
    """The change of one resource, whichever steps of the engine it consists of.

    `diff` are the inputs that differ, `forced` those that force the replacement.
    """

    urn: str
    type: str
    name: str
    how: str
    diff: frozenset[str] = frozenset()
    forced: frozenset[str] = frozenset()


def observed_steps(events: Iterable[ResourceEvent]) -> tuple[ObservedStep, ...]:
    """Return one step per changed cloud resource; a replacement counts once, components do not count."""
    found: dict[str, ObservedStep] = {}
    for event in events:
        how = _HOW.get(event.op)
        if event.status != "done" or how is None or not _is_real(event.type):
            continue
        known = found.get(event.urn)
        forced = frozenset(event.replace_keys) | (known.forced if known else frozenset())
        diff = frozenset(event.diff) | forced | (known.diff if known else frozenset())
        if known is not None and known.how == "replace":
            how = "replace"
        found[event.urn] = ObservedStep(event.urn, event.type, event.name, how, diff, forced)
    return tuple(found.values())


def _is_real(kind: str) -> bool:
    """Return whether a type is a cloud resource: not a component, provider or the stack."""
    return not kind.startswith(("gpufleet:", "pulumi:"))


def short_type(kind: str) -> str:
    """Return `aws:eks/nodeGroup:NodeGroup` as `eks.NodeGroup`."""
    package, module, name = kind.split(":")
    area = module.partition("/")[0]
    return f"{area}.{name}" if package == "aws" else f"{package}.{name}"
