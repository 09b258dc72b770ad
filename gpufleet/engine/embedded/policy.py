"""Where policies look at a run: every resource once its inputs are checked, and the stack at its end.

Without packs the gate is `NO_POLICIES`, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gpufleet.engine.api import PolicyEvent
from gpufleet.engine.embedded.goal import Goal
from gpufleet.engine.embedded.resource import ResourceState


class PolicyGate(Protocol):
    """What judges resources: policy packs, in Pulumi's Analyzer protocol."""

    def remediate(self, state: ResourceState, goal: Goal) -> Sequence[PolicyEvent]:
        """Let remediations replace the inputs of `state`; what they could not do is advisory."""
        ...

    def remediate_again(self, state: ResourceState, goal: Goal) -> None:
        """The same, silently, where a replacement has computed the inputs anew."""
        ...

    def judge_resource(self, state: ResourceState, goal: Goal) -> Sequence[PolicyEvent]:
        """Violations of one resource with checked inputs; unknown values are in it during a preview."""
        ...

    def judge_stack(self, states: Sequence[ResourceState]) -> Sequence[PolicyEvent]:
        """Violations of the whole stack, as the run leaves it (or would leave it)."""
        ...

    def cancel(self) -> None:
        """The run was interrupted: give up what is under way."""
        ...

    def close(self) -> None:
        """The run ends; what fails from here on is of no interest."""
        ...


class _NoPolicies:
    def remediate(self, state: ResourceState, goal: Goal) -> Sequence[PolicyEvent]:
        return ()

    def remediate_again(self, state: ResourceState, goal: Goal) -> None:
        return

    def judge_resource(self, state: ResourceState, goal: Goal) -> Sequence[PolicyEvent]:
        return ()

    def judge_stack(self, states: Sequence[ResourceState]) -> Sequence[PolicyEvent]:
        return ()

    def cancel(self) -> None:
        return

    def close(self) -> None:
        return


NO_POLICIES: PolicyGate = _NoPolicies()
