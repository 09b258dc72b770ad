"""What a change does to a stack, for rules that compare: steps, and the stack and its cost before and after.

Pulumi's Analyzer protocol tells a pack what resources shall be and never what happens to them, so
rules over a change are judged by gpufleet itself, from the steps of the preview of either engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from gpufleet.pricing.models import FleetCost
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack
from gpufleet.spec.models import FleetSpec

Operation = Literal["create", "update", "replace", "delete", "same"]


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """What happens to one resource. `before` is None for a creation, `after` for a deletion.

    `diff` names the top-level inputs that differ, `replace_keys` those that force the replacement.
    """

    urn: str
    operation: Operation
    before: Resource | None
    after: Resource | None
    diff: tuple[str, ...] = ()
    replace_keys: tuple[str, ...] = ()

    @property
    def resource(self) -> Resource:
        """The resource as it is, or as it was when it is deleted."""
        found = self.after or self.before
        if found is None:
            raise AssertionError(f"{self.urn} is neither before nor after the change")
        return found


@dataclass(frozen=True, slots=True)
class OpenChange:
    """Another change that waits to be merged, and what it adds to the month at its expected size."""

    name: str
    increase: Decimal


@dataclass(frozen=True, slots=True)
class StackChange:
    """One change of one stack: a pull request, or what the next `up` would do.

    `jobs` says how many jobs run on a node group ("site/group") where somebody told; a group that
    is not in it has an unknown number. `spec_before` is the fleet file before the change; None for a new
    environment. `unfinished` says that no run of the stack ever came to its end: what is there before is
    a part of what its first creation asked for.
    """

    steps: tuple[ChangeStep, ...]
    before: Stack
    after: Stack
    cost_before: FleetCost
    cost_after: FleetCost
    open_changes: tuple[OpenChange, ...] = ()
    jobs: Mapping[str, int] = field(default_factory=dict)
    spec_before: FleetSpec | None = None
    unfinished: bool = False
