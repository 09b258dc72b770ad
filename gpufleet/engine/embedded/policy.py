"""The policy gate of a run: it checks every resource after its inputs, and the stack at the end.

Without packs the gate is `NO_POLICIES`, which has no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gpufleet.engine.api import PolicyEvent
from gpufleet.engine.embedded.goal import Goal
from gpufleet.engine.embedded.resource import ResourceState


class PolicyGate(Protocol):
    """Checks resources with policy packs, by Pulumi's Analyzer protocol."""

    def remediate(self, state: ResourceState, goal: Goal) -> Sequence[PolicyEvent]:
        """Let remediations replace the inputs of `state`; return their failures as advisory events."""
        ...

    def remediate_again(self, state: ResourceState, goal: Goal) -> None:
        """Remediate silently after a replacement has computed the inputs again."""
        ...

    def check_resource(self, state: ResourceState, goal: Goal) -> Sequence[PolicyEvent]:
        """Return violations of one resource with checked inputs, which may be unknown in a preview."""
        ...

    def check_stack(self, states: Sequence[ResourceState]) -> Sequence[PolicyEvent]:
        """Return violations of the whole stack after the run (or after the planned run)."""
        ...

    def cancel(self) -> None:
        """Abandon running calls: the run was interrupted."""
        ...

    def close(self) -> None:
        """Close the gate at the end of the run; later failures are ignored."""
        ...


class _NoPolicies:
    def remediate(self, state: ResourceState, goal: Goal) -> Sequence[PolicyEvent]:
        return ()

    def remediate_again(self, state: ResourceState, goal: Goal) -> None:
        return

    def check_resource(self, state: ResourceState, goal: Goal) -> Sequence[PolicyEvent]:
        return ()

    def check_stack(self, states: Sequence[ResourceState]) -> Sequence[PolicyEvent]:
        return ()

    def cancel(self) -> None:
        return

    def close(self) -> None:
        return


NO_POLICIES: PolicyGate = _NoPolicies()
