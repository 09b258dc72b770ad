"""The change of a stack for change rules: its steps, and the stack and its cost before and after.

Pulumi's Analyzer protocol passes the desired resources to a pack but not the operations on them. gpufleet
therefore evaluates change rules itself, from the preview steps of either engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

from msgspec import Struct, field

from gpufleet.pricing.models import FleetCost
from gpufleet.resources.resource import Resource
from gpufleet.resources.stack import Stack
from gpufleet.spec.models import FleetSpec

Operation = Literal["create", "update", "replace", "delete", "same"]


class ChangeStep(Struct, frozen=True):
    """The operation on one resource. `before` is None for a creation, `after` for a deletion.

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
        """The resource after the change, or before it if it is deleted."""
        found = self.after or self.before
        if found is None:
            raise AssertionError(f"{self.urn} is neither before nor after the change")
        return found


class OpenChange(Struct, frozen=True):
    """Another unmerged change, and the monthly cost that it adds at its expected size."""

    name: str
    increase: Decimal


class StackChange(Struct, frozen=True):
    """One change of one stack: a pull request, or the next `up`.

    `jobs` has the number of running jobs by node group ("site/group"). It is unknown for groups that are not
    in it. `spec_before` is the fleet file before the change, None for a new environment. `unfinished` is True
    if no run of the stack has finished: the stack before the change is then part of its first creation.
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
