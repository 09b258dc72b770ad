"""Where policy packs look at a run: every resource once its inputs are checked, and the stack at its end.

`up` asks the gate in a preview of its own before anything is changed, so a mandatory violation of a
stack policy stops the run before its first change. Without packs the gate is `NO_POLICIES`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gpufleet.engine.api import PolicyEvent
from gpufleet.engine.embedded.goal import Goal
from gpufleet.engine.embedded.resource import ResourceState


class PolicyGate(Protocol):
    """What judges resources: an analyzer process, in Pulumi's protocol."""

    def judge_resource(
        self, state: ResourceState, goal: Goal, provider: ResourceState | None
    ) -> Sequence[PolicyEvent]:
        """Violations of one resource with checked inputs; unknown values are in it during a preview."""
        ...

    def judge_stack(self, states: Sequence[ResourceState]) -> Sequence[PolicyEvent]:
        """Violations of the whole stack, as the run leaves it (or would leave it)."""
        ...


class _NoPolicies:
    def judge_resource(
        self, state: ResourceState, goal: Goal, provider: ResourceState | None
    ) -> Sequence[PolicyEvent]:
        return ()

    def judge_stack(self, states: Sequence[ResourceState]) -> Sequence[PolicyEvent]:
        return ()


NO_POLICIES: PolicyGate = _NoPolicies()
