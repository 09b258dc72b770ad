"""The input of a rule besides the resources: its settings, the fleet, the stack, the time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from gpufleet.catalog import Catalog
    from gpufleet.plan.models import FleetPlan
    from gpufleet.pricing.models import FleetCost
    from gpufleet.resources.stack import Stack
    from gpufleet.spec.models import FleetSpec

S = TypeVar("S")


@dataclass(frozen=True)
class PolicyContext:
    """The input that all rules of one run share.

    `spec` and `plan` are None where the stack has no fleet file (another project's program): rules
    that need one then fail closed and say so. `config` is the stack's configuration without secrets
    (`aws:region`). `preview` says that ids and the like are not known yet.
    """

    project: str
    stack: str
    catalog: Catalog
    now: dt.datetime
    preview: bool = True
    spec: FleetSpec | None = None
    plan: FleetPlan | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    _costs: dict[int, tuple[Stack, FleetCost]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def environment(self) -> str:
        """The environment's name; the stack's where there is no fleet file."""
        return self.spec.environment if self.spec is not None else self.stack

    def cost_of(self, stack: Stack) -> FleetCost:
        """What the stack costs with the racks of its fleet, computed once for all rules."""
        from gpufleet.pricing import price_stack

        found = self._costs.get(id(stack))
        # The stack is kept with its cost: the id of one that is gone may be another's.
        if found is None or found[0] is not stack:
            cost = price_stack(stack, self.catalog, self.plan, default_region=self.region)
            found = self._costs[id(stack)] = (stack, cost)
        return found[1]

    @property
    def on_trial(self) -> bool:
        """Whether the stack is brought up in the emulated AWS with its defaults, which protect nothing.

        What the verdict previews there names `gpufleet:protect` itself, as an account has it: no trial.
        """
        return self.config.get("gpufleet:cloud") == "sandbox" and "gpufleet:protect" not in self.config

    @property
    def region(self) -> str:
        """The region of resources whose provider names none."""
        return self.config.get("aws:region", "")


@dataclass(frozen=True)
class RuleContext(Generic[S]):
    """The settings of one rule, and what it shares with the other rules of the run."""

    settings: S
    shared: PolicyContext

    @property
    def environment(self) -> str:
        """The environment's name."""
        return self.shared.environment
